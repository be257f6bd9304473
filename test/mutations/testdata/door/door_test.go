// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package door_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/mutations/testdata/door"
)

func TestDoor(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Door Suite")
}

var _ = BeforeSuite(func() { Expect(door.Hung()).To(BeTrue()) })

var _ = Describe("a door", func() {
	It("should open for the right key", func() { Expect(door.Opens("right")).To(BeTrue()) })
	It("should stay shut for the wrong key", func() { Expect(door.Opens("wrong")).To(BeFalse()) })
	It("should not be locked by the wrong key", func() { Expect(door.Locks("wrong")).To(BeFalse()) })
})

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestApp(t *testing.T) {
	// All specs run in one zone, which is not UTC. It is set once: servers of a spec may still read the time when the
	// next one begins.
	time.Local = time.FixedZone("HERE", 2*60*60)
	RegisterFailHandler(Fail)
	RunSpecs(t, "kubectl-livecpm App Suite")
}

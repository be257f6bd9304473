// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package etcdview_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestEtcdView(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Preflight Etcd View Suite")
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
)

func TestApp(t *testing.T) {
	// All specs run in one zone, which is not UTC. That of the time package must not be set here: libraries may have
	// begun to read the time when they were loaded.
	app.SetZone(time.FixedZone("HERE", 2*60*60))
	RegisterFailHandler(Fail)
	RunSpecs(t, "kubectl-livecpm App Suite")
}

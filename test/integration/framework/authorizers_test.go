// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os/exec"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// TestGatekeeperEnds guards against suites that fail after all of their specs have passed.
func TestGatekeeperEnds(t *testing.T) {
	for name, script := range map[string]string{
		"in good order": "cat",
		"with an error": "cat; exit 1",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			gatekeeper := &gatekeeper{}
			g.Expect(gatekeeper.runCommand(exec.Command("sh", "-c", script), "")).To(Succeed())
			g.Expect(gatekeeper.end()).To(Succeed())
			g.Expect(gatekeeper.process.Signal(syscall.Signal(0))).NotTo(Succeed(), "it still runs")
		})
	}
}

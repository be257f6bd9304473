// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package simagent_test

import (
	"flag"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/simagent"
)

var _ = Describe("Parse", func() {
	It("should read the command line beside the flags that Gardener's libraries register", func() {
		Expect(flag.Lookup("version")).NotTo(BeNil(), "or nothing is in the way of the agent's own flag any more")
		Expect(simagent.Parse([]string{"--garden=g", "--seed=s", "--seed-name=seed-a", "--version=v1.150.0",
			"--health-port=1", "--metrics-port=2", "--go-file=go", "--pace=200ms"})).To(Equal(simagent.Options{
			Garden: "g", Seed: "s", SeedName: "seed-a", Version: "v1.150.0", HealthPort: 1, MetricsPort: 2,
			GoFile: "go", Pace: 200 * time.Millisecond,
		}))
	})

	It("should name a flag that it does not know", func() {
		Expect(simagent.Parse([]string{"--no-such-flag"})).Error().To(MatchError(ContainSubstring("no-such-flag")))
	})
})

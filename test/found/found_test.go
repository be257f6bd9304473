// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package found_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/abort"
	"github.com/livecpm/livecpm/test/found"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/recovery"
	"github.com/livecpm/livecpm/test/robustness"
)

var (
	row         = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	makeCommand = regexp.MustCompile("^`make ([a-z0-9-]+)((?: [A-Z_]+=(?:\"[^\"]+\"|[^ `\"]+))*)`$")
	makeSetting = regexp.MustCompile(`([A-Z_]+)=("[^"]+"|\S+)`)
)

const repository = "../.."

var _ = Describe("docs/development/found.md", func() {
	page := read(filepath.Join(repository, "docs", "development", "found.md"))
	findings := row.FindAllStringSubmatch(page, -1)[2:] // without the header

	It("should have a table of three columns, and nothing in it that is not looked at", func() {
		Expect(findings).To(HaveLen(strings.Count(page, "\n| ") - 2))
		Expect(len(findings)).To(BeNumerically(">", 5))
	})

	It("should name commands that have something to run", func() {
		makefile := read(filepath.Join(repository, "Makefile"))
		suites := read(filepath.Join(repository, "test", "suites", "suites_test.go"))
		for _, finding := range findings {
			command := makeCommand.FindStringSubmatch(finding[2])
			Expect(command).NotTo(BeNil(), "%s is not a call of make", finding[2])
			target, settings := command[1], map[string]string{}
			for _, setting := range makeSetting.FindAllStringSubmatch(command[2], -1) {
				Expect(makefile).To(ContainSubstring("$("+setting[1]+")"), finding[2])
				settings[setting[1]] = strings.Trim(setting[2], `"`)
			}
			Expect(makefile).To(ContainSubstring("\n"+target+":"), finding[2])
			if label, given := settings["LABELS"]; given {
				Expect(suites).To(ContainSubstring(`= "`+label+`"`), "there is no such label: %s", finding[2])
			}
			Expect(runs(target, settings)).To(Succeed(), finding[2])
		}
	})

	It("should name specs that are there", func() {
		for _, finding := range findings {
			specs, err := found.SpecsIn(finding[3])
			Expect(err).NotTo(HaveOccurred())
			Expect(specs).NotTo(BeEmpty(), finding[3])
			for _, spec := range specs {
				Expect(spec.Check(repository)).To(Succeed())
			}
		}
	})
})

func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// runs returns an error if a target of the Makefile would refuse the settings or find nothing to run with them.
func runs(target string, settings map[string]string) error {
	if target == "demo" && len(settings) == 1 &&
		(slices.Contains(config.Shoots(), settings["SHOOT"]) || settings["TLS_TERMINATION"] == "off") {
		return nil
	}
	if target != "test-e2e" && len(settings) > 0 {
		return fmt.Errorf("nothing is known of the settings of make %s", target)
	}
	switch settings["LABELS"] {
	case "faults":
		getenv := func(name string) string { return settings[name] }
		if _, err := robustness.Limit(getenv); err != nil {
			return err
		}
		_, err := robustness.Select(getenv)
		return err
	case "abort":
		_, _, err := abort.Choose(settings["MOMENTS"], settings["FAULT"])
		return err
	case "recovery":
		if !slices.ContainsFunc(recovery.Scenarios(), func(scenario recovery.Scenario) bool {
			return strings.Contains(scenario.Name, settings["FOCUS"])
		}) {
			return fmt.Errorf("no scenario matches %q", settings["FOCUS"])
		}
		return nil
	default:
		if len(settings) > 0 {
			return fmt.Errorf("nothing is known of the settings of make %s with LABELS=%s", target, settings["LABELS"])
		}
		return nil
	}
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// tailLines is how many lines are shown of what a run has printed that was not caught.
const tailLines = 25

// describe returns a line about the result, and what was printed if the mutation was not caught.
func describe(result Result) string {
	var out strings.Builder
	for i, trial := range result.Trials {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s: %s by %s in %s", result.Mutation.Name, trial.Verdict, trial.Package, seconds(trial.Took))
		switch trial.Verdict {
		case Caught:
			fmt.Fprintf(&out, ": %q", trial.Failed)
		case Survived:
			fmt.Fprintf(&out, ": %s", result.Mutation.Harm)
		default:
			fmt.Fprintf(&out, "\n%s", tail(trial.Output))
		}
	}
	return out.String()
}

// table returns all results, one line for each package.
func table(results []Result) string {
	var (
		out    strings.Builder
		caught int
		took   time.Duration
		writer = tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	)
	_, _ = fmt.Fprintln(writer, "MUTATION\tVERDICT\tPACKAGE\tTIME\tFAILED")
	for _, result := range results {
		if result.Caught() {
			caught++
		}
		for _, trial := range result.Trials {
			took += trial.Took
			_, _ = fmt.Fprintf(writer, "%s\t%s\t%s\t%s\t%s\n", result.Mutation.Name, trial.Verdict, trial.Package,
				seconds(trial.Took), strings.Join(trial.Failed, "; "))
		}
	}
	_ = writer.Flush()
	fmt.Fprintf(&out, "%d of %d mutations were caught in %s", caught, len(results), seconds(took))
	return out.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

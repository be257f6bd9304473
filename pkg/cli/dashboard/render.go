// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

var (
	//go:embed page.html
	page string
	//go:embed style.css
	style string

	templates = template.Must(template.New("dashboard").Parse(page))

	// sheet is the style sheet of the report, and what the dashboard has beside it.
	sheet = func() string {
		_, own, _ := strings.Cut(style, "*/\n")
		return report.Style() + own
	}()

	// policy lets the page show its style sheet, run its script and ask its server, and nothing else.
	policy = "default-src 'none'; style-src " + report.HashOf(sheet) + "; script-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// head is what the page says above the report.
type head struct {
	Key, Way, State, StateClass, Elapsed, Left, Current, Reason, Message, Pause, Runbook, Explanation, AsOf string

	Progress int32
	Steps    bool
	Missing  []string
	Commands []Command
	Sections template.HTML
}

// render draws what is known, with commands that have the flags, and points in time in the zone; nil for UTC.
func render(seen Seen, flags []string, zone *time.Location) (content, error) {
	migration := seen.Migration
	data := head{
		Key: migration.Key(), Way: way(seen), State: string(migration.State), StateClass: stateClass(migration.State),
		Current: currentStep(seen), Reason: migration.Reason, Message: view.Planned(migration.Message, migration),
		Pause: migration.PauseBefore, Runbook: migration.Runbook(), Explanation: explanation(migration.State),
		Progress: migration.Progress, Steps: len(migration.Steps) > 0, Missing: seen.Missing,
		Commands: Commands(seen.Shoot, migration, flags),
		AsOf:     view.Options{Zone: zone}.Date(seen.Now.Time),
	}
	if migration.Seconds > 0 {
		data.Elapsed = view.Duration(time.Duration(migration.Seconds * float64(time.Second)))
	}
	if data.Left = view.Left(migration); migration.State.Final() {
		data.Pause = ""
	}
	if seen.Report != nil {
		seen.Report.Zone = zone
		var err error
		if data.Sections, err = report.Sections(*seen.Report); err != nil {
			return content{}, err
		}
	}
	var out strings.Builder
	if err := templates.ExecuteTemplate(&out, "content", data); err != nil {
		return content{}, fmt.Errorf("failed to draw the dashboard: %w", err)
	}
	return content{title: title(migration), body: out.String()}, nil
}

func way(seen Seen) string {
	source, destination := seen.Migration.Source, seen.Migration.Destination
	if seen.Report != nil {
		source, destination = seen.Report.Source, seen.Report.Destination
	}
	switch {
	case source != "" && destination != "":
		return source + " → " + destination
	case source+destination != "":
		return "in seed " + source + destination
	}
	return "in no seed"
}

// title is what the tab of a browser has room for: the state comes first.
func title(migration summary.Summary) string {
	text := string(migration.State)
	if len(migration.Steps) > 0 && !migration.State.Final() {
		text = fmt.Sprintf("%d %% %s", migration.Progress, text)
	}
	return text + " · " + migration.Name
}

// currentStep tells which step is at work, who owns it, and how long it has taken and is expected to, or may.
func currentStep(seen Seen) string {
	for _, step := range seen.Migration.Steps {
		if !step.Current || seen.Migration.State.Final() {
			continue
		}
		text := fmt.Sprintf("%d %s, %s: %s", step.Number, step.Condition, step.Owner, step.Title)
		if _, ok := step.Elapsed(); ok && begun(seen, step) {
			text += " (" + view.StepTime(seen.Migration, step) + ")"
		}
		return text
	}
	return ""
}

func begun(seen Seen, step summary.Step) bool {
	return steps.ConditionBegun(steps.Conditions(seen.Shoot), gardencorev1beta1.ConditionType(step.Condition))
}

// explanation says what a state means of which no condition tells.
func explanation(state summary.State) string {
	switch state {
	case summary.None:
		return "No live migration has been requested."
	case summary.Classic:
		return "A classic migration is in flight: the intent annotation is not set."
	case summary.Requested:
		return "The agent in the source seed has not taken it up yet."
	}
	return ""
}

func stateClass(state summary.State) string {
	switch state {
	case summary.Succeeded:
		return "good"
	case summary.Overdue, summary.Held:
		return "bad"
	case summary.Paused, summary.Aborting, summary.Aborted:
		return "wait"
	case summary.Processing, summary.Requested:
		return "work"
	}
	return ""
}

// renderPage draws the page around the content.
func renderPage(shown content, version int) (string, error) {
	var out strings.Builder
	style := template.CSS(sheet)                      //nolint:gosec // The sheet is ours.
	body := template.HTML(shown.problem + shown.body) //nolint:gosec // Templates have escaped both.
	err := templates.ExecuteTemplate(&out, "page", struct {
		Title   string
		Style   template.CSS
		Body    template.HTML
		Version int
	}{shown.title, style, body, version})
	if err != nil {
		return "", fmt.Errorf("failed to draw the dashboard: %w", err)
	}
	return out.String(), nil
}

// renderProblem says why what is shown is old.
func renderProblem(problem error) string {
	var out strings.Builder
	if err := templates.ExecuteTemplate(&out, "problem", problem.Error()); err != nil {
		return ""
	}
	return out.String()
}

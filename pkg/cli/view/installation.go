// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
)

// Installation is what was found out about an installation.
type Installation struct {
	// Sections are the checks: of the garden, and of each seed.
	Sections []Section `json:"sections"`
	// Total is how many there are, Failed how many did not pass, Unknown how many could not be made.
	Total   int `json:"total"`
	Failed  int `json:"failed"`
	Unknown int `json:"unknown"`
	// Notes are what is not in question, but good to know.
	Notes []string `json:"notes,omitempty"`
}

// Section are the checks of one place.
type Section struct {
	// Title names the place.
	Title string `json:"title"`
	// Checks are what was checked there.
	Checks []LinkedCheck `json:"checks"`
}

// LinkedCheck is a check with the page about it.
type LinkedCheck struct {
	Check
	// Link is the URL of the page that says what to do if it does not pass.
	Link string `json:"link,omitempty"`
}

// Add adds a section and counts its checks.
func (i *Installation) Add(title string, checks ...LinkedCheck) {
	i.Sections = append(i.Sections, Section{Title: title, Checks: checks})
	for _, check := range checks {
		i.Total++
		switch check.Status {
		case Fail:
			i.Failed++
		case Unknown:
			i.Unknown++
		}
	}
}

// Text draws the checks, and below each that did not pass what to do.
func (i Installation) Text(o Options) string {
	var out strings.Builder
	for _, section := range i.Sections {
		// A name stays as it is.
		kind, name, _ := strings.Cut(section.Title, " ")
		out.WriteString(o.paint(bold, strings.TrimSpace(strings.ToUpper(kind)+" "+name)) + "\n")
		for _, check := range section.Checks {
			// What could not be looked at is not known to be wrong.
			check.Deferred = check.Status == Unknown
			remedy := check.Remedy
			if check.Deferred {
				check.Remedy = ""
			}
			out.WriteString(checkLines(check.Check, o))
			const left = 34
			if check.Deferred && remedy != "" {
				out.WriteString(strings.Repeat(" ", left) +
					strings.Join(wrap("-> "+remedy, max(o.width()-left, smallest)), "\n"+strings.Repeat(" ", left)) +
					"\n")
			}
			// A link stays in one piece, so that a terminal can open it.
			if check.Status != Pass && check.Link != "" {
				out.WriteString("    see " + check.Link + "\n")
			}
		}
		out.WriteString("\n")
	}
	for _, note := range i.Notes {
		out.WriteString(strings.Join(wrap("Note: "+note, o.width()), "\n      ") + "\n")
	}
	switch {
	case i.Failed > 0:
		fmt.Fprintf(&out, "%d of %d checks failed; %d could not be made.\n", i.Failed, i.Total, i.Unknown)
	case i.Unknown > 0:
		fmt.Fprintf(&out, "No check failed, but %d of %d could not be made.\n", i.Unknown, i.Total)
	default:
		fmt.Fprintf(&out, "All %d checks passed.\n", i.Total)
	}
	return out.String()
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
)

// Verification is what came of a verification.
type Verification struct {
	// Namespace and Shoot name the shoot.
	Namespace string `json:"namespace"`
	Shoot     string `json:"shoot"`
	// Source and Destination are the seeds; the source is empty if it is not known.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination"`
	// Checks are the checks.
	Checks []Check `json:"checks"`
	// Failed and Unknown are the numbers of checks that failed or could not be made.
	Failed  int `json:"failed"`
	Unknown int `json:"unknown"`
}

// Text draws what came of the verification.
func (r Verification) Text(o Options) string {
	var out strings.Builder
	source := r.Source
	if source == "" {
		source = "?"
	}
	fmt.Fprintf(&out, "Verification of %s/%s: %s -> %s\n\n%s\n", r.Namespace, r.Shoot, source, r.Destination,
		o.paint(bold, "CHECKS"))
	for _, check := range r.Checks {
		out.WriteString(checkLines(check, o))
	}
	out.WriteString("\n")
	switch {
	case r.Failed > 0:
		out.WriteString(
			o.paint(red, fmt.Sprintf("Problems found: %d of %d checks failed.", r.Failed, len(r.Checks))) + "\n")
	case r.Unknown > 0:
		out.WriteString(o.paint(yellow, fmt.Sprintf("Not proved: %d of %d checks could not be made; the others passed.",
			r.Unknown, len(r.Checks))) + "\n")
	default:
		out.WriteString(o.paint(green, fmt.Sprintf("Proved: all %d checks passed.", len(r.Checks))) + "\n")
	}
	return out.String()
}

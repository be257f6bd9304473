// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	"github.com/livecpm/livecpm/pkg/cli/verify"
)

// Verification draws the outcome of a verification.
func Verification(r verify.Result, o Options) string {
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
			o.paint(red, fmt.Sprintf("Not as it should be: %d of %d checks failed.", r.Failed, len(r.Checks))) + "\n")
	case r.Unknown > 0:
		out.WriteString(o.paint(yellow, fmt.Sprintf("Not proved: %d of %d checks could not be made, the others passed.",
			r.Unknown, len(r.Checks))) + "\n")
	default:
		out.WriteString(o.paint(green, fmt.Sprintf("Proved: all %d checks passed.", len(r.Checks))) + "\n")
	}
	return out.String()
}

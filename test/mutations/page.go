// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

import (
	_ "embed" // for the head of the page
	"fmt"
	"path"
	"strings"
)

// PageFile is the page of all mutations, from the root of the repository.
const PageFile = "docs/development/mutations.md"

// head is the page without its tables.
//
//go:embed head.md
var head string

// Page returns the page of the mutations.
func Page(all []Mutation) string {
	var out strings.Builder
	out.WriteString(head)
	for _, area := range Areas() {
		fmt.Fprintf(&out, "\n## %s\n\n| fault | what would go wrong | in | caught by |\n", area)
		out.WriteString("| --- | --- | --- | --- |\n")
		for _, mutation := range all {
			if mutation.Area != area {
				continue
			}
			var packages []string
			for _, folder := range mutation.Packages {
				packages = append(packages, "`"+folder+"`")
			}
			fmt.Fprintf(&out, "| `%s` | %s | `%s` | %s |\n", mutation.Name, mutation.Harm, path.Clean(mutation.File),
				strings.Join(packages, ", "))
		}
	}
	return out.String()
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import "strings"

// Cut shortens a text to at most so many bytes, between characters. Conditions, annotations and events hold texts of
// others, which may be of any length.
func Cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:bytes-len(more)], "") + more
}

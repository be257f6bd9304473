// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"unicode/utf8"
)

// Word is a word that can be explained.
type Word struct {
	// Kind says what it is, Name is the word, Short what it means in a few words.
	Kind, Name, Short string
}

// Words draws a list of words by their kinds.
func Words(words []Word, o Options) string {
	var out strings.Builder
	columns, kind := 0, ""
	for _, word := range words {
		columns = max(columns, utf8.RuneCountInString(word.Name)+2)
	}
	for _, word := range words {
		if word.Kind != kind {
			if kind = word.Kind; out.Len() > 0 {
				out.WriteString("\n")
			}
			out.WriteString(o.paint(bold, strings.ToUpper(kind)) + "\n")
		}
		text := flat(linkText.ReplaceAllString(word.Short, "$1"))
		if !o.Wide {
			text = Cut(text, max(o.width()-columns, 1))
		}
		out.WriteString(strings.TrimRight(pad(word.Name, columns)+strings.ReplaceAll(text, "**", ""), " ") + "\n")
	}
	return out.String()
}

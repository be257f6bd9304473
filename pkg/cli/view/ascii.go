// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"unicode/utf8"
)

// glyphs are what stands for a character on terminals that know ASCII only. Each is one column wide, so that nothing
// moves.
var glyphs = map[rune]rune{
	'✔': '+', '✖': 'x', '▶': '>', '‖': '=', '○': '.', '↩': '<', '…': '>', '•': '*', '–': '-', '—': '-',
	'├': '|', '└': '`', '│': '|', '─': '-', '█': '#', '░': '.', '→': '>', '←': '<', '↑': '^', '↓': 'v',
}

// ASCII returns the text for terminals that know ASCII only.
func ASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		if glyph, ok := glyphs[r]; ok {
			return glyph
		}
		return '?'
	}, text)
}

// UTF8 reports whether a program with the environment may write more than ASCII to a terminal, as POSIX says: the first
// one of three variables that is set decides, and the locale is C if none is.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

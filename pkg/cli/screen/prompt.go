// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"context"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// prompt asks for a confirmation before something is changed. What can be taken back needs a y; what cannot needs a
// word that is typed.
type prompt struct {
	// question says what will happen.
	question string
	// word is what has to be typed; empty if y is enough.
	word string
	// act does it.
	act func(context.Context) (Answer, error)

	typed string
}

// decision is what a key makes of a prompt.
type decision int

const (
	undecided decision = iota
	confirmed
	dismissed
)

// press takes a key.
func (p *prompt) press(pressed tea.KeyPressMsg) decision {
	switch pressed.String() {
	case "esc", "ctrl+c":
		return dismissed
	case "backspace":
		if runes := []rune(p.typed); len(runes) > 0 {
			p.typed = string(runes[:len(runes)-1])
		}
		return undecided
	case "enter":
		if p.word != "" && p.typed == p.word {
			return confirmed
		}
		return dismissed
	}
	if p.word == "" {
		if strings.EqualFold(pressed.Text, "y") {
			return confirmed
		}
		return dismissed
	}
	for _, r := range pressed.Text {
		if unicode.IsPrint(r) {
			p.typed += string(r)
		}
	}
	return undecided
}

// lines are how it is shown.
func (p *prompt) lines() []string {
	if p.word == "" {
		return []string{p.question + " [y/N]"}
	}
	return []string{p.question, "Type " + p.word + " to confirm, esc to leave it: " + p.typed + "_"}
}

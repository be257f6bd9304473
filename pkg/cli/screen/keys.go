// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/lipgloss/v2"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

// The keys of both screens.
var (
	keyNext   = binding("tab", "next view", "tab", "right")
	keyBefore = binding("shift+tab", "view before", "shift+tab", "left")
	keyUp     = binding("up", "scroll up", "up", "k")
	keyDown   = binding("down", "scroll down", "down", "j")
	keyViews  = binding("1-4", "view by number", "1", "2", "3", "4")
	keyPageUp = binding("pgup", "page up", "pgup", "b")
	keyPageDn = binding("pgdn", "page down", "pgdown", "space")
	keyTop    = binding("g", "to the top", "g", "home")
	keyBottom = binding("G", "to the bottom", "G", "end")
	keyPause  = binding("p", "pause", "p")
	keyResume = binding("r", "resume", "r")
	keyRetry  = binding("t", "retry", "t")
	keyAbort  = binding("a", "abort", "a")
	keyWide   = binding("w", "raw errors", "w")
	keyOpen   = binding("enter", "open", "enter")
	keyHelp   = binding("?", "help", "?")
	keyQuit   = binding("q", "quit", "q", "ctrl+c")
	keyBack   = binding("esc", "back", "esc")

	// The same keys in a list with a cursor, which they move.
	keyMove   = binding("up/down", "move", slices.Concat(keyUp.Keys(), keyDown.Keys())...)
	keyMoveUp = binding("up", "move up", keyUp.Keys()...)
	keyMoveDn = binding("down", "move down", keyDown.Keys()...)
)

// binding is shown as a name with what it does, and pressed by any of the keys.
func binding(name, does string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(name, does))
}

// helper returns what draws keys.
func (o Options) helper(s size) help.Model {
	out := help.New()
	out.SetWidth(s.width)
	out.ShortSeparator, out.FullSeparator = "  ", "   "
	out.Styles = help.Styles{}
	if o.Color {
		// The greys of the library can hardly be read on a dark terminal.
		out.Styles.ShortKey, out.Styles.FullKey = bold, bold
	}
	return out
}

// allKeys are shown by the help, each with every key that does the same: in columns, or below each other where these
// are too wide.
func allKeys(of ...[]key.Binding) func(Options, size) string {
	return func(o Options, s size) string {
		helper := o.helper(s)
		helper.SetWidth(0) // It leaves out columns that do not fit.
		var columns [][]key.Binding
		for _, group := range of {
			group = slices.Clone(group)
			for i, one := range group {
				group[i].SetHelp(strings.Join(one.Keys(), ", "), one.Help().Desc)
			}
			columns = append(columns, group)
		}
		out := helper.FullHelpView(columns)
		if lipgloss.Width(out) > s.width {
			out = helper.FullHelpView([][]key.Binding{slices.Concat(columns...)})
		}
		if o.ASCII {
			out = view.ASCII(out)
		}
		return out
	}
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

// The keys of both screens.
var (
	keyNext   = binding("tab", "next view", "tab", "right")
	keyBefore = binding("shift+tab", "view before", "shift+tab", "left")
	keyUp     = binding("up", "scroll up", "up", "k")
	keyDown   = binding("down", "scroll down", "down", "j")
	keyPages  = binding("pgup pgdn", "scroll by pages", "pgup", "pgdown", "space", "b")
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

// allKeys are shown by the help, in columns.
func allKeys(of ...[]key.Binding) func(Options, size) string {
	return func(o Options, s size) string {
		helper := o.helper(s)
		out := helper.FullHelpView(of)
		if o.ASCII {
			out = view.ASCII(out)
		}
		return out
	}
}

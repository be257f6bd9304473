// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

// colors is when colors are used.
type colors string

const (
	colorsAuto   colors = "auto"
	colorsAlways colors = "always"
	colorsNever  colors = "never"
)

var allColors = []string{string(colorsAuto), string(colorsAlways), string(colorsNever)}

// String, Set and Type implement pflag.Value.
func (c *colors) String() string { return string(*c) }

// Set implements pflag.Value.
func (c *colors) Set(value string) error {
	if !slices.Contains(allColors, value) {
		return fmt.Errorf("it can be %s", strings.Join(allColors, ", "))
	}
	*c = colors(value)
	return nil
}

// Type implements pflag.Value.
func (c *colors) Type() string { return "when" }

// addColor adds the flags for colors.
func (o *options) addColor(command *cobra.Command) {
	o.color = colorsAuto
	flags := command.PersistentFlags()
	flags.Var(&o.color, "color", "use colors: auto, always, never; auto uses them if the output is a terminal, TERM "+
		"is not dumb and NO_COLOR is not set")
	complete(command, "color", func(*cobra.Command) ([]string, error) { return allColors, nil })
	flags.BoolVar(&o.noColor, "no-color", false, "as --color=never")
	flags.Lookup("no-color").Hidden = true
	flags.Lookup("no-color").Annotations = map[string][]string{annotationNow: {"--color=never"}}
}

// environment is what the screens and colors depend on beside flags.
type environment struct {
	// terminal reports that the output is a terminal, keys that there is one to type on.
	terminal, keys bool
	getenv         func(string) string
	// system is the operating system.
	system string
}

func (o *options) environment() environment {
	_, _, terminal := o.terminal()
	return environment{terminal: terminal, keys: term.IsTerminal(int(os.Stdin.Fd())), getenv: os.Getenv,
		system: runtime.GOOS}
}

// dumb reports that the terminal knows nothing but lines. Windows sets no TERM.
func (e environment) dumb() bool {
	name := e.getenv("TERM")
	return name == "dumb" || name == "" && e.system != "windows"
}

// colored reports whether colors are used.
func (e environment) colored(when colors) bool {
	switch when {
	case colorsAlways:
		return true
	case colorsNever:
		return false
	}
	return e.terminal && !e.dumb() && e.getenv("NO_COLOR") == ""
}

// screens reports whether a screen can be shown; otherwise there are lines.
func (e environment) screens() bool { return e.terminal && e.keys && !e.dumb() }

// ascii reports whether nothing but ASCII is shown. What is written to a file or to another program is in UTF-8.
func (e environment) ascii() bool {
	return e.terminal && e.system != "windows" && !view.UTF8(e.getenv)
}

// colored reports whether colors are used.
func (o *options) colored() bool {
	if o.noColor {
		return false
	}
	return o.environment().colored(o.color)
}

// glyphs returns the text in characters that the terminal knows.
func (o *options) glyphs(text string) string {
	if o.environment().ascii() {
		return view.ASCII(text)
	}
	return text
}

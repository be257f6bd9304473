// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"context"
	"errors"
	"fmt"
	"io"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

// Terminal is what a screen is shown on.
type Terminal struct {
	// In gives keys, Out shows the screen.
	In  io.Reader
	Out io.Writer
}

// Run shows the model until it ends. When the context ends it ends as well, with the cause. The terminal is left as it
// was before.
func (t Terminal) Run(ctx context.Context, model tea.Model, options Options) error {
	profile := colorprofile.Ascii
	if options.Color {
		// The screens use the terminal's own sixteen colors.
		profile = colorprofile.ANSI
	}
	program := tea.NewProgram(model, tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out),
		tea.WithColorProfile(profile), tea.WithoutSignalHandler(), tea.WithFPS(10))
	_, err := program.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, tea.ErrInterrupted):
		return nil
	}
	return fmt.Errorf("failed to show the screen: %w", err)
}

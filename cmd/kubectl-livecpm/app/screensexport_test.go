// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"sync"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/screen"
)

// Environment is what screens and colors depend on, with what they become.
type Environment struct {
	Terminal, Keys bool
	Variables      map[string]string
	System, Color  string
}

// Shown is whether there are colors, screens, and nothing but ASCII.
type Shown struct{ Colored, Screens, ASCII bool }

// Show tells what is shown in the environment.
func (e Environment) Show() Shown {
	env := environment{terminal: e.Terminal, keys: e.Keys, system: e.System,
		getenv: func(name string) string { return e.Variables[name] }}
	return Shown{env.colored(colors(e.Color)), env.screens(), env.ascii()}
}

// NewFleet returns what the screen of all migrations shows.
func NewFleet(garden *access.Garden, clk clock.WithTicker, namespace string) screen.FleetSource {
	o := &options{Streams: Streams{Out: io.Discard, Err: io.Discard}, clock: clk}
	s := &surroundings{options: o, garden: garden, seeds: access.Seeds{}, members: inspect.NewMembers(access.Seeds{}),
		config: access.Config{SeedAccess: access.CredentialsNone}, tried: map[string]bool{},
		forecast: &inspect.Forecast{Garden: garden, Clock: clk}}
	return &shownFleet{surroundings: s, namespace: namespace, mu: &sync.Mutex{}, all: s.forecast}
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"

	"github.com/livecpm/livecpm/test/outlook"
)

// reckon finds out whether the machine has room for what is going to happen, and says what it lacks. What would fail is
// an error.
func (l *Landscape) reckon(ctx context.Context) error {
	if outlook.Begun() {
		return nil // the program that came first has reckoned, before it compiled and made the machine busy
	}
	there, err := outlook.Look(ctx, outlook.Place{Repo: l.Config.Repo, State: l.Config.State, Shoot: l.Config.Shoot,
		More: components(l.Config)})
	if err != nil {
		return err
	}
	room, err := outlook.Survey()
	if err != nil {
		return err
	}
	lines, err := outlook.Judge(outlook.Reckon(room, outlook.Demand{
		Shoot: l.Config.Shoot, Workers: l.Config.HasWorkers(), Moves: l.Moves, There: there,
		Nodes: len(l.Config.Seeds[0].Nodes), Others: outlook.OtherShoots(l.Config.State, l.Config.Shoot),
	}))
	for _, line := range lines {
		l.progress.screen.Line("%s", line)
	}
	return err
}

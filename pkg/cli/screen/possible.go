// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// possibilities are what keys can change now. Whoever does it judges again.
type possibilities struct{ pause, resume, retry, abort bool }

func possible(w summary.ControlPlane) possibilities {
	s := view.Summary(w)
	going := !s.State.Final() && s.State != summary.Aborting
	begun := false
	for _, step := range s.Steps {
		_, took := step.Elapsed()
		begun = begun || step.Current && took
	}
	return possibilities{
		pause:  going && s.PauseBefore == "",
		resume: going && s.PauseBefore != "",
		retry:  going && begun,
		abort:  going && steps.Requested(w.Shoot) && steps.AbortPossible(w.Shoot),
	}
}

// keys are those of what is possible.
func (p possibilities) keys() []key.Binding {
	var out []key.Binding
	for _, one := range []struct {
		is  bool
		key key.Binding
	}{{p.pause, keyPause}, {p.resume, keyResume}, {p.retry, keyRetry}, {p.abort, keyAbort}} {
		if one.is {
			out = append(out, one.key)
		}
	}
	return out
}

// why says why a key changes nothing now.
func (p possibilities) why(pressed tea.KeyPressMsg) string {
	switch {
	case key.Matches(pressed, keyPause) && p.resume:
		return "A pause is requested already."
	case key.Matches(pressed, keyPause):
		return "There is nothing to pause."
	case key.Matches(pressed, keyResume):
		return "No pause is requested."
	case key.Matches(pressed, keyRetry):
		return "There is no step to retry: the current one has not begun."
	}
	return "It is too late to abort, or there is nothing to abort. To gain time, pause before the next step."
}

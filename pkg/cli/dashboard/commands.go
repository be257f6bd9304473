// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Command is a command that an operator may want next.
type Command struct {
	// Line is what to type, What says what it does.
	Line string `json:"line"`
	What string `json:"what"`
}

// Commands returns the commands that the present state permits, the likeliest first. The page runs none of them. The
// flags are those by which the garden is reached; they are put behind the name of the plugin.
func Commands(shoot *gardencorev1beta1.Shoot, migration summary.Summary, flags []string) []Command {
	c := commander{shoot: shoot, migration: migration, flags: flags}
	switch migration.State {
	case summary.None:
		c.add("see which seeds are suitable, and what is in the way", "plan", c.target()...)
		c.add("start a live migration; put in the seed", "start", append(c.target(), "--to", "SEED")...)
	case summary.Classic:
		c.add("see what is known of earlier migrations", "history", c.target()...)
	case summary.Requested:
		c.add("find out why no agent takes it up", "check")
		c.pause()
		c.abort()
	case summary.Processing:
		c.pause()
		c.abort()
		c.wait()
	case summary.Paused:
		c.add("let it continue", "resume", c.target()...)
		c.abort()
	case summary.Held:
		c.explain(migration.Reason)
		c.retry()
		c.abort()
	case summary.Overdue:
		c.explain(migration.Step)
		c.retry()
		c.pause()
		c.abort()
	case summary.Aborting:
		c.wait()
		c.explain("abort")
	case summary.Aborted:
		c.add("keep the shoot where it is", "abort", append(c.target(), "--stay")...)
		if _, destination, ok := steps.Seeds(shoot); ok {
			c.add("start it again", "start", append(c.target(), "--to", destination)...)
		}
		c.ticket()
	case summary.Succeeded:
		c.add("verify that everything is in order", "verify", c.target()...)
		c.ticket()
	}
	return c.out
}

// commander writes the commands for one state.
type commander struct {
	shoot     *gardencorev1beta1.Shoot
	migration summary.Summary
	flags     []string
	out       []Command
}

func (c *commander) target() []string { return []string{c.shoot.Name, "-n", c.shoot.Namespace} }

func (c *commander) add(what, verb string, arguments ...string) {
	words := append([]string{"kubectl", "livecpm", verb}, arguments...)
	for _, flag := range c.flags {
		words = append(words, quoted(flag))
	}
	c.out = append(c.out, Command{Line: strings.Join(words, " "), What: what})
}

// pause offers to hold before the first step that has not begun.
func (c *commander) pause() {
	for _, step := range steps.Table() {
		if c.migration.State != summary.Requested && steps.Begun(steps.Conditions(c.shoot), step) {
			continue
		}
		c.add(fmt.Sprintf("hold before %s; a step that has begun is not stopped", step), "pause", c.target()...)
		return
	}
}

func (c *commander) abort() {
	if steps.AbortPossible(c.shoot) {
		c.add("undo it in both seeds", "abort", c.target()...)
	}
}

func (c *commander) retry() {
	conditions := steps.Conditions(c.shoot)
	if current, unfinished := steps.Current(conditions); unfinished && steps.Begun(conditions, current) {
		c.add("try the step again at once, with its whole deadline", "retry", c.target()...)
	}
}

func (c *commander) wait() {
	c.add("wait until it ends, with a line per change", "status", c.target()...)
}

func (c *commander) explain(word string) {
	if word != "" {
		c.add("read what it means and what to do", "explain", word)
	}
}

func (c *commander) ticket() {
	c.add("write the report for a change ticket", "report", append(c.target(), "--ticket")...)
}

// quoted makes one word of the text for a shell.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_=./:@,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

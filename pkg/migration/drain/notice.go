// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"time"
)

// Notice says how moves are announced before they begin.
type Notice struct {
	// Wanted reports that they are announced at all.
	Wanted bool
	// Lead is the least time between the announcement and the begin of a move.
	Lead time.Duration
	// Problem tells why nothing can be announced; empty if it can. It is tried again after HeldUntil.
	Problem   string
	HeldUntil time.Time
}

// Announcement is a decision to announce a move.
type Announcement struct {
	Start
	// NotBefore is when the move begins at the earliest.
	NotBefore time.Time
}

// announcedFor reports whether the next move out of the seed is announced. What was announced before the drain was last
// resumed does not count.
func (s Shoot) announcedFor(seed Seed) bool {
	return s.AnnouncedBy == seed.Name && !s.AnnouncedAt.IsZero() && !s.AnnouncedAt.Before(seed.ResumedAt)
}

// byNotice holds what is not announced, or was announced too short a time ago. As many shoots are announced ahead as
// may leave the seed at once. What its maintenance time window holds is announced so that the time is over when it
// opens.
func (p *planner) byNotice(seed *seedState, out Entry, assessment Assessment) (Entry, bool) {
	if !p.Notice.Wanted {
		return out, false
	}
	opens := p.Now
	if seed.windowed(assessment) && !assessment.InMaintenanceWindow {
		opens = assessment.WindowOpens
	}
	if out.announcedFor(seed.Seed) {
		return p.announced(seed, out, opens)
	}
	due := p.Now.Add(p.Notice.Lead)
	switch {
	case opens.After(due):
		p.lookAgain(opens.Add(-p.Notice.Lead))
		return out, false
	case seed.announced >= p.Budget.PerSource:
		return out.waits(ReasonNotAnnounced, time.Time{}, "announced when shoots that are announced have left"), true
	case p.Notice.Problem != "" && p.Now.Before(p.Notice.HeldUntil):
		return out.waits(ReasonNoticeFailed, p.Notice.HeldUntil, "the move could not be announced: %s",
			p.Notice.Problem), true
	}
	if opens.After(due) {
		due = opens
	}
	seed.announced++
	seed.takeCanary(out.Shoot)
	p.plan.Announcements = append(p.plan.Announcements, Announcement{NotBefore: due,
		Start: p.startOf(seed, out.Shoot, assessment)})
	return out.waits(ReasonAnnounced, due, "moves to seed %s at %s at the earliest%s", out.To, FormatTime(due),
		onward(out)), true
}

// announced holds a shoot until the time after its announcement is over. One that then waits for its window makes room
// for others.
func (p *planner) announced(seed *seedState, out Entry, opens time.Time) (Entry, bool) {
	due := out.AnnouncedAt.Add(p.Notice.Lead)
	if p.Now.Before(due) {
		seed.announced++
		seed.takeCanary(out.Shoot)
		return out.waits(ReasonAnnounced, due, "moves to seed %s at %s at the earliest%s", out.To, FormatTime(due),
			onward(out)), true
	}
	if !opens.After(p.Now) {
		seed.announced++
	}
	return out, false
}

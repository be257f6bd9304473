// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/drain"
	pure "github.com/livecpm/livecpm/pkg/migration/drain"
)

// listener is a Notifier that keeps what it is told, and fails if it is to.
type listener struct {
	notices []drain.Notice
	err     error
}

// Notify keeps the notice.
func (l *listener) Notify(_ context.Context, notice drain.Notice) error {
	l.notices = append(l.notices, notice)
	return l.err
}

var _ = Describe("Announcements", func() {
	const prefix = "migration.gardener.cloud/drain-"
	var (
		f      *fakeGarden
		heard  *listener
		reason = func(name string) string { return string(f.table("seed-a")[name].Reason) }
	)

	BeforeEach(func() {
		f = newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x"))
		heard = &listener{}
		f.Notices = drain.Notices{Lead: 15 * time.Minute, Notifier: heard, RetryAfter: time.Minute}
	})

	It("should be made once, and outlive a restart", func() {
		f.reconcile()
		Expect(f.moving()).To(BeEmpty())
		Expect(heard.notices).To(HaveLen(1))
		id := heard.notices[0].ID
		Expect(id).To(HavePrefix("uid-of-x-"))
		heard.notices[0].ID = ""
		Expect(heard.notices[0]).To(Equal(drain.Notice{Time: begin, Namespace: namespace, Name: "x",
			Purpose: "development", Seed: "seed-a", Destination: "seed-b", Way: pure.Live,
			NotBefore: begin.Add(15 * time.Minute)}))
		Expect(f.shoot("x").Annotations).To(And(HaveKeyWithValue(prefix+"announced-by", "seed-a"),
			HaveKeyWithValue(prefix+"announced-at", "2026-11-20T10:00:00Z")))
		Expect(f.told()).To(ContainElement("Normal DrainMoveAnnounced The drain of seed seed-a moves the control " +
			"plane to seed seed-b (Live) at 2026-11-20T10:15:00Z at the earliest"))
		Expect(reason("x")).To(Equal("Announced"))
		Expect(f.table("seed-a")["x"].Until).To(Equal("2026-11-20T10:15:00Z"))

		f.restart()
		f.clock.Step(14 * time.Minute)
		f.reconcile()
		Expect(f.moving()).To(BeEmpty())
		f.clock.Step(time.Minute)
		f.reconcile()
		Expect(f.moving()).To(HaveKey("x"))
		Expect(heard.notices).To(HaveLen(1))
		Expect(f.shoot("x").Annotations).NotTo(Or(HaveKey(prefix+"announced-by"), HaveKey(prefix+"announced-at")))
	})

	It("should be followed by the move in the same pass if there is no time between them", func() {
		f.Notices.Lead = 0
		f.reconcile()
		Expect(heard.notices).To(HaveLen(1))
		Expect(f.moving()).To(HaveKey("x"))
	})

	It("should be made by the event alone if nobody listens", func() {
		f.Notices.Notifier = nil
		f.reconcile()
		Expect(f.told()).To(ContainElement(HavePrefix("Normal DrainMoveAnnounced ")))
		f.clock.Step(15 * time.Minute)
		f.reconcile()
		Expect(f.moving()).To(HaveKey("x"))
	})

	It("should hold the move while nobody can be told, and be the same in the next attempt", func() {
		f = newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x"), newShoot("y"))
		heard.err = errors.New("it answered 500")
		f.Notices = drain.Notices{Notifier: heard, RetryAfter: time.Minute}
		for range 3 {
			f.reconcile()
		}
		Expect(heard.notices).To(HaveLen(1), "one attempt for both, until it is tried again")
		Expect(f.moving()).To(BeEmpty())
		Expect(reason("x")).To(Equal("NoticeFailed"))
		Expect(reason("y")).To(Equal("NoticeFailed"))
		Expect(f.table("seed-a")["x"].Message).To(ContainSubstring("it answered 500"))
		Expect(f.table("seed-a")["x"].Until).To(Equal("2026-11-20T10:01:00Z"))
		Expect(f.told()).To(ContainElement(And(HavePrefix("Warning DrainNoticeFailed The move of shoot garden-demo/"),
			ContainSubstring("it is tried again at 2026-11-20T10:01:00Z"))))

		heard.err = nil
		f.clock.Step(time.Minute)
		f.reconcile()
		Expect(heard.notices[1].ID).To(Equal(heard.notices[0].ID))
		Expect(f.moving()).To(HaveLen(2))
	})

	It("should not hold the move for ever if that is configured", func() {
		heard.err = errors.New("it answered 500")
		f.Notices = drain.Notices{Notifier: heard, RetryAfter: time.Minute, ContinueAfter: 3}
		for range 2 {
			f.reconcile()
			Expect(f.moving()).To(BeEmpty())
			f.clock.Step(time.Minute)
		}
		f.reconcile()
		Expect(heard.notices).To(HaveLen(3))
		Expect(f.moving()).To(HaveKey("x"))
		Expect(f.told()).To(ContainElement(ContainSubstring("the move begins without it")))
	})

	It("should be made again if it could not be recorded", func() {
		f.failure["patch Shoot"] = errors.New("no quota")
		_, err := f.Reconcile(context.Background(), reconcile.Request{})
		Expect(err).To(MatchError(
			ContainSubstring("failed to record at Shoot garden-demo/x that its move is announced")))
		f.failure = map[string]error{}
		f.reconcile()
		Expect(heard.notices).To(HaveLen(2))
		Expect(heard.notices[1].ID).To(Equal(heard.notices[0].ID))
	})
})

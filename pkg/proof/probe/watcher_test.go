// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/proof/probe"
)

var _ = Describe("Watch", func() {
	var (
		fake     *testclock.FakeClock
		follower *probe.Follower
		stream   *watch.FakeWatcher
		result   chan error
	)

	BeforeEach(func() {
		fake = testclock.NewFakeClock(time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC))
		follower = probe.NewFollower(fake)
		stream = watch.NewFake()
		result = make(chan error, 1)
		go func() { result <- follower.Follow(stream) }()
		Eventually(fake.HasWaiters).Should(BeTrue())
	})

	configMap := func(sequence, revision int) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "kept-1", ResourceVersion: strconv.Itoa(revision)},
			Data:       map[string]string{"sequence": strconv.Itoa(sequence)},
		}
	}
	bookmark := func(revision int) { stream.Action(watch.Bookmark, configMap(0, revision)) }
	status := func(err *apierrors.StatusError) runtime.Object { return &err.ErrStatus }
	decoding := func() runtime.Object {
		return apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").
			AsObject(errors.New("stream error: stream ID 1; INTERNAL_ERROR"))
	}

	It("should not have failed when it ends and nothing is due", func() {
		stream.Stop()
		Eventually(result).Should(Receive(BeNil()))
	})

	It("should not have failed when it ends right after a write", func() {
		follower.Acknowledge("kept-1", 1)
		fake.Step(probe.WatchDue)
		stream.Stop()
		Eventually(result).Should(Receive(BeNil()))
	})

	It("should have failed when it ends although an event was due", func() {
		follower.Acknowledge("kept-1", 1)
		follower.Acknowledge("kept-1", 2)
		stream.Add(configMap(1, 10))
		fake.Step(probe.WatchDue + time.Second)
		stream.Stop()
		Eventually(result).Should(Receive(MatchError(ContainSubstring(
			"watch ended without an event of write 2 of kept-1, which had been acknowledged 6s before"))))
	})

	It("should not have failed when it ends after all events that were due", func() {
		follower.Acknowledge("kept-1", 1)
		stream.Add(configMap(1, 10))
		fake.Step(probe.WatchDue + time.Second)
		stream.Stop()
		Eventually(result).Should(Receive(BeNil()))
	})

	DescribeTable("should judge what it is told at its end", func(object func() runtime.Object, matcher OmegaMatcher) {
		stream.Error(object())
		Eventually(result).Should(Receive(matcher))
	},
		Entry("a revision that is gone", func() runtime.Object {
			return status(apierrors.NewResourceExpired("too old resource version"))
		}, MatchError(ContainSubstring("too old resource version"))),
		Entry("an error of the server", func() runtime.Object {
			return status(apierrors.NewInternalError(errors.New("etcdserver: no leader")))
		}, MatchError(ContainSubstring("no leader"))),
		Entry("a timeout", func() runtime.Object { return status(apierrors.NewTimeoutError("timed out", 0)) }, BeNil()),
		Entry("a timeout of the server", func() runtime.Object {
			return status(apierrors.NewServerTimeout(schema.GroupResource{Resource: "configmaps"}, "watch", 0))
		}, BeNil()),
		Entry("a stream that broke off", decoding, BeNil()),
	)

	It("should have failed when it breaks off although an event was due, and count that", func() {
		follower.Acknowledge("kept-1", 1)
		fake.Step(probe.WatchDue + time.Second)
		stream.Error(decoding())
		Eventually(result).Should(Receive(MatchError(ContainSubstring("watch broke off without an event of write 1"))))
		Expect(follower.Broken()).To(BeEquivalentTo(1))
	})

	It("should have failed when it is silent for longer than bookmarks are apart", func() {
		fake.Step(probe.MaxWatchSilence)
		Eventually(result).Should(Receive(MatchError(ContainSubstring("neither an event nor a bookmark for 1m15s"))))
	})

	It("should take a bookmark for a sign of life", func() {
		for revision := 10; revision < 16; revision += 2 {
			fake.Step(time.Minute)
			// Who takes the second one has done with the first one.
			bookmark(revision)
			bookmark(revision + 1)
		}
		Expect(result).NotTo(Receive())
		stream.Stop()
		Eventually(result).Should(Receive(BeNil()))
	})
})

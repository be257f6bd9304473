// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/test/robustness/history"
)

var _ = Describe("ConfigMaps", func() {
	var (
		store    *history.ConfigMaps
		requests []*http.Request
		bodies   []string
		answer   func(w http.ResponseWriter)
		resource = schema.GroupResource{Resource: "configmaps"}
	)

	BeforeEach(func() {
		requests, bodies = nil, nil
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			requests, bodies = append(requests, r), append(bodies, string(body))
			answer(w)
		}))
		DeferCleanup(server.Close)
		var err error
		// With JSON the requests can be looked at.
		store, err = history.NewConfigMaps(&rest.Config{Host: server.URL,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "127.0.0.1:1", "space")
		Expect(err).NotTo(HaveOccurred())
	})

	send := func(status int, object any) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(object)
		}
	}
	fail := func(err *apierrors.StatusError) func(http.ResponseWriter) {
		err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		return send(int(err.ErrStatus.Code), err.ErrStatus)
	}
	configMap := func(value, revision string) corev1.ConfigMap {
		return corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "k", ResourceVersion: revision},
			Data:       map[string]string{"value": value},
		}
	}

	It("should read with quorum", func(ctx SpecContext) {
		answer = send(http.StatusOK, configMap("v", "7"))
		Expect(store.Get(ctx, "k")).To(Equal(history.Object{Value: "v", Revision: 7}))
		Expect(requests[0].URL.Query().Has("resourceVersion")).To(BeFalse())
	})

	It("should make updates and deletes depend on the version that the client knows", func(ctx SpecContext) {
		answer = send(http.StatusOK, configMap("w", "8"))
		Expect(store.Update(ctx, "k", history.Object{Value: "v", Revision: 7}, "w")).To(BeEquivalentTo(8))
		Expect(bodies[0]).To(ContainSubstring(`"resourceVersion":"7"`))
		Expect(store.Delete(ctx, "k", history.Object{Value: "w", Revision: 8})).To(Succeed())
		Expect(bodies[1]).To(ContainSubstring(`"preconditions":{"resourceVersion":"8"}`))
	})

	do := func(ctx context.Context) map[string]error {
		_, get := store.Get(ctx, "k")
		_, create := store.Create(ctx, "k", "v")
		_, update := store.Update(ctx, "k", history.Object{Value: "v", Revision: 7}, "w")
		return map[string]error{"get": get, "create": create, "update": update,
			"delete": store.Delete(ctx, "k", history.Object{Value: "v", Revision: 7})}
	}
	other := And(HaveOccurred(), Not(MatchError(history.ErrRejected)), Not(MatchError(history.ErrAbsent)))

	DescribeTable("should tell an answer from a failure, and not ask twice",
		func(ctx SpecContext, err *apierrors.StatusError, get, create, update types.GomegaMatcher) {
			answer = fail(err)
			errs := do(ctx)
			Expect(errs["get"]).To(get)
			Expect(errs["create"]).To(create)
			Expect(errs["update"]).To(update)
			Expect(errs["delete"]).To(update)
			Expect(requests).To(HaveLen(4))
		},
		Entry("not found", apierrors.NewNotFound(resource, "k"), MatchError(history.ErrAbsent), other,
			MatchError(history.ErrRejected)),
		Entry("conflict", apierrors.NewConflict(resource, "k", nil), other, other, MatchError(history.ErrRejected)),
		Entry("already there", apierrors.NewAlreadyExists(resource, "k"), other, MatchError(history.ErrRejected),
			other),
		Entry("internal error", apierrors.NewInternalError(errBroken), other, other, other),
		Entry("timeout", apierrors.NewTimeoutError("etcdserver: request timed out", 0), other, other, other),
		Entry("put off", apierrors.NewServiceUnavailable("apiserver is shutting down"), other, other, other),
		Entry("too many", apierrors.NewTooManyRequests("slow down", 0), other, other, other),
	)

	Describe("Watch", func() {
		var (
			events    []history.Event
			revisions []uint64
			opened    int
		)

		BeforeEach(func() { events, revisions, opened = nil, nil, 0 })

		follow := func(ctx context.Context) error {
			return store.Watch(ctx, 7, history.Receiver{
				Opened:   func() { opened++ },
				Deliver:  func(event history.Event) { events = append(events, event) },
				Progress: func(revision uint64) { revisions = append(revisions, revision) },
			})
		}
		line := func(kind string, object any) string {
			data, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, data)
		}
		lines := func(all ...string) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "application/json")
				for _, text := range all {
					_, _ = io.WriteString(w, text)
				}
			}
		}

		It("should deliver events and bookmarks until the server ends it", func(ctx SpecContext) {
			answer = lines(line("ADDED", configMap("a", "8")), line("BOOKMARK", configMap("", "9")),
				line("MODIFIED", configMap("b", "10")), line("DELETED", configMap("b", "11")))
			Expect(follow(ctx)).To(Succeed())
			Expect(opened).To(Equal(1))
			Expect(events).To(Equal([]history.Event{
				{Type: history.Added, Key: "k", Value: "a", Revision: 8},
				{Type: history.Modified, Key: "k", Value: "b", Revision: 10},
				{Type: history.Deleted, Key: "k", Value: "b", Revision: 11},
			}))
			Expect(revisions).To(Equal([]uint64{9}))
			Expect(requests[0].URL.Query().Get("resourceVersion")).To(Equal("7"))
		})

		It("should take a stream that breaks off for one that has ended", func(ctx SpecContext) {
			answer = lines(line("ADDED", configMap("a", "8")), `{"type":"MODI`)
			Expect(follow(ctx)).To(Succeed())
			Expect(events).To(HaveLen(1))
		})

		It("should tell that the revision is gone, whichever way it is told", func(ctx SpecContext) {
			gone := apierrors.NewResourceExpired("too old resource version")
			answer = fail(gone)
			Expect(follow(ctx)).To(MatchError(history.ErrGone))
			Expect(opened).To(BeZero())
			answer = lines(line("ERROR", gone.ErrStatus))
			Expect(follow(ctx)).To(MatchError(history.ErrGone))
		})

		It("should tell that it could not be opened", func(ctx SpecContext) {
			answer = fail(apierrors.NewServiceUnavailable("not now"))
			Expect(follow(ctx)).To(And(HaveOccurred(), Not(MatchError(history.ErrGone))))
		})
	})
})

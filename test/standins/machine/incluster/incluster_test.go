// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package incluster_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

// apiServer keeps one ConfigMap.
type apiServer struct {
	mu          sync.Mutex
	object      *corev1.ConfigMap
	connections map[string]int
	seen        map[string]bool           // addresses of clients, whatever became of their requests
	refuse      func(r *http.Request) int // a status; 0 to serve
}

// breakOff is instead of a status: the connection ends without an answer.
const breakOff = -1

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "who is it?", http.StatusUnauthorized)
		return
	}
	a.seen[r.RemoteAddr] = true
	if a.refuse != nil {
		switch status := a.refuse(r); status {
		case 0:
		case breakOff:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "refused", status)
			return
		}
	}
	a.connections[r.RemoteAddr]++
	body, _ := io.ReadAll(r.Body)
	switch r.Method {
	case http.MethodPost:
		if a.object != nil {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).
				Encode(apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "machine-x").Status())
			return
		}
		a.object = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "machine-x"}, Data: map[string]string{}}
	case http.MethodPatch:
		patch := struct {
			Data map[string]string `json:"data"`
		}{}
		_ = json.Unmarshal(body, &patch)
		for key, value := range patch.Data {
			a.object.Data[key] = value
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.object)
}

var _ = Describe("Client", func() {
	var (
		server *apiServer
		front  *httptest.Server
		client *incluster.Client
		ended  chan error
		end    context.CancelFunc
	)

	BeforeEach(func() {
		server = &apiServer{connections: map[string]int{}, seen: map[string]bool{}}
		front = httptest.NewServer(server)
		DeferCleanup(front.Close)
		client = &incluster.Client{
			Log: logr.Discard(), Config: &rest.Config{Host: front.URL, BearerToken: "secret",
				ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
			Namespace: "ns", Node: "machine-x", Pod: "uid", Interval: 20 * time.Millisecond,
		}
		ended = make(chan error, 1)
	})

	start := func() {
		var ctx context.Context
		ctx, end = context.WithCancel(context.Background())
		go func() { ended <- client.Run(ctx) }()
		DeferCleanup(func() {
			end()
			Eventually(ended).Should(Receive(MatchError(context.Canceled)))
		})
	}
	counts := func() incluster.Counts {
		out, _ := client.Counts()
		return out
	}
	refuse := func(f func(r *http.Request) int) {
		server.mu.Lock()
		defer server.mu.Unlock()
		server.refuse = f
	}

	It("should count what succeeds, on a kept connection and on new ones", func() {
		start()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", 20))
		Expect(counts()).To(And(
			HaveField("Node", "machine-x"), HaveField("Pod", "uid"), HaveField("Failed", 0),
			HaveField("Errors", BeEmpty()),
			HaveField("Started", BeTemporally("~", time.Now(), time.Minute)),
			HaveField("Writes", BeNumerically(">", 5)), HaveField("Reads", BeNumerically(">", 5)),
		))
		// Either way may be ahead of the other one.
		Eventually(func(g Gomega) {
			server.mu.Lock()
			defer server.mu.Unlock()
			most, single := 0, 0
			for _, requests := range server.connections {
				most = max(most, requests)
				if requests == 1 {
					single++
				}
			}
			g.Expect(most).To(BeNumerically(">", 5), "one connection is kept")
			g.Expect(single).To(BeNumerically(">", 5), "others are not")
		}).Should(Succeed())
	})

	It("should count failures and send nothing again, even if it is asked to", func() {
		start()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", 4))
		sent := 0
		refuse(func(r *http.Request) int {
			if r.Method == http.MethodPatch && sent < 3 {
				sent++
				return http.StatusTooManyRequests
			}
			return 0
		})
		Eventually(func() int { return counts().Failed }).Should(Equal(3))
		before := counts().Requests()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", before+10))
		Expect(counts()).To(And(HaveField("Failed", 3), HaveField("CutByProxy", 0)))
		Expect(counts().Errors).To(HaveLen(3))
		Expect(counts().Errors[0]).To(And(ContainSubstring(" write, "), Not(ContainSubstring("secret"))))
	})

	It("should not blame a proxy for an answer of the server, whatever it is", func() {
		var asked atomic.Int64
		client.Cut = func(incluster.Lost) bool { asked.Add(1); return true }
		start()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", 4))
		refuse(func(*http.Request) int { return http.StatusServiceUnavailable })
		Eventually(func() int { return counts().Failed }).Should(BeNumerically(">", 5))
		Expect(counts().CutByProxy).To(BeZero())
		Expect(asked.Load()).To(BeZero())
	})

	It("should know what the node's own proxy has cut, measure gaps, and keep the first errors", func() {
		client.Cut = func(lost incluster.Lost) bool {
			server.mu.Lock()
			defer server.mu.Unlock()
			return lost.End.After(lost.Begin) && server.seen[lost.Local]
		}
		start()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", 4))
		// A gap that is not over when the longest one is read began with an answer, and there is one from after that
		// moment.
		since, before := time.Now(), counts().Requests()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", before))
		earlier := counts().LongestGapMs
		refuse(func(*http.Request) int { return breakOff })
		Eventually(func() int { return counts().Failed }).Should(BeNumerically(">", 15))
		// By now whatever was answered before has been counted.
		began := time.Now()
		Eventually(func() int { return counts().Failed }).Should(BeNumerically(">", 20))
		Expect(counts().CutByProxy).To(Equal(counts().Failed))
		Expect(counts().Errors).To(HaveLen(10))
		Expect(counts().LongestGapMs).To(Or(BeNumerically("<=", earlier), Satisfy(func(gap int64) bool {
			return gap <= time.Since(since).Milliseconds()
		})))
		open := time.Since(began).Milliseconds()
		refuse(nil)
		Eventually(func() int64 { return counts().LongestGapMs }).Should(BeNumerically(">=", open))
	})

	It("should notice an answer that is older than what was acknowledged", func() {
		start()
		Eventually(func() int { return counts().Writes }).Should(BeNumerically(">", 2))
		refuse(func(r *http.Request) int {
			if r.Method == http.MethodGet {
				server.object.Data = map[string]string{"kept": "1", "fresh": "1"}
			}
			return 0
		})
		Eventually(func() int { return counts().Failed }).Should(BeNumerically(">", 0))
		Expect(counts().Errors[0]).To(ContainSubstring("older than"))
		Expect(counts().Stale).To(BeNumerically(">", 0))
	})

	It("should tell when requests failed that were not cut", func() {
		begin := time.Now()
		start()
		Eventually(func() int { return counts().Writes }).Should(BeNumerically(">", 2))
		Expect(counts().FirstFailed).To(BeZero())
		refuse(func(*http.Request) int { return http.StatusServiceUnavailable })
		Eventually(func() int { return counts().Failed }).Should(BeNumerically(">", 2))
		Expect(counts().FirstFailed).To(BeTemporally(">", begin))
		Expect(counts().LastFailed).To(BeTemporally(">", counts().FirstFailed))
		Expect(counts().Stale).To(BeZero())
	})

	It("should not count before it has been served once", func() {
		refuse(func(*http.Request) int { return http.StatusServiceUnavailable })
		start()
		Consistently(func() bool { _, begun := client.Counts(); return begun }, "200ms").Should(BeFalse())
		refuse(nil)
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", 0))
		Expect(counts().Failed).To(Equal(0))
	})

	It("should count requests that nobody answers", func() {
		start()
		Eventually(func() int { return counts().Requests() }).Should(BeNumerically(">", 4))
		front.CloseClientConnections()
		Expect(front.Listener.Close()).To(Succeed())
		Eventually(func() int { return counts().Failed }).Should(BeNumerically(">", 3))
	})
})

var _ = Describe("Apply and Remove", func() {
	var (
		ctx   = context.Background()
		shoot *fake.Clientset
	)

	BeforeEach(func() { shoot = fake.NewClientset() })

	It("should make pods on all nodes that may do nothing but what they do", func() {
		Expect(incluster.Apply(ctx, shoot)).To(Succeed())
		Expect(incluster.Apply(ctx, shoot)).To(Succeed(), "again")
		daemonSet, err := shoot.AppsV1().DaemonSets(incluster.Name).Get(ctx, incluster.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		template := daemonSet.Spec.Template
		Expect(incluster.Is(&corev1.Pod{Spec: template.Spec})).To(BeTrue())
		Expect(template.Spec.Tolerations).To(ConsistOf(corev1.Toleration{Operator: corev1.TolerationOpExists}))
		Expect(template.Labels).To(HaveKeyWithValue("apiserver-proxy.networking.gardener.cloud/inject", "disable"))
		Expect(daemonSet.Spec.Selector.MatchLabels).To(HaveKeyWithValue("app", template.Labels["app"]))
		role, err := shoot.RbacV1().Roles(incluster.Name).Get(ctx, incluster.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(role.Rules).To(
			ConsistOf(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"},
				Verbs: []string{"create", "get", "patch"}}))
		binding, err := shoot.RbacV1().RoleBindings(incluster.Name).Get(ctx, incluster.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(binding.Subjects).
			To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: incluster.Name,
				Name: template.Spec.ServiceAccountName}))
	})

	It("should wait for a namespace that is on its way out", func() {
		now := metav1.Now()
		_, err := shoot.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: incluster.Name, DeletionTimestamp: &now,
				Finalizers: []string{"x"}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		expired, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		Expect(incluster.Apply(expired, shoot)).To(MatchError(ContainSubstring("failed to wait until namespace")))

		applied := make(chan error, 1)
		go func() { applied <- incluster.Apply(ctx, shoot) }()
		Expect(incluster.Remove(ctx, shoot)).To(Succeed())
		Eventually(applied).Should(Receive(BeNil()))
		Expect(incluster.Remove(ctx, shoot)).To(Succeed())
		Expect(incluster.Remove(ctx, shoot)).To(Succeed(), "again")
	})

	It("should not take other pods for its own", func() {
		daemonSet := &appsv1.DaemonSet{}
		Expect(incluster.Is(&corev1.Pod{Spec: daemonSet.Spec.Template.Spec})).To(BeFalse())
		Expect(incluster.Is(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "other"}}}})).
			To(BeFalse())
	})
})

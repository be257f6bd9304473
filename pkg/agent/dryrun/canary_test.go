// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/dryrun"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/test/calls"
)

// leapingClock passes the time that somebody waits for at once.
type leapingClock struct{ *testclock.FakeClock }

func (c leapingClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	passed := make(chan time.Time, 1)
	passed <- c.Now()
	return passed
}

// clusterDNS answers for the hosts in EndpointSlices of headless Services, as CoreDNS does.
type clusterDNS struct {
	client client.Client
	clock  leapingClock
	// ignores reports that it knows no EndpointSlices, as kube-dns.
	ignores bool
	// hears is how long it takes until it knows of a slice.
	hears time.Duration
	// remembers is for how long it remembers that there is no such host.
	remembers time.Duration
	// failure, if set, is the answer.
	failure error

	asked   []string
	unknown map[string]time.Time
	seen    map[string]time.Time
}

func (d *clusterDNS) lookup(ctx context.Context, host string) ([]string, error) {
	d.asked = append(d.asked, host)
	if d.failure != nil {
		return nil, d.failure
	}
	none := &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	if until, ok := d.unknown[host]; ok && d.clock.Now().Before(until) {
		return nil, none
	}
	if addresses := d.find(ctx, host); len(addresses) > 0 {
		return addresses, nil
	}
	d.unknown[host] = d.clock.Now().Add(d.remembers)
	return nil, none
}

func (d *clusterDNS) find(ctx context.Context, host string) []string {
	GinkgoHelper()
	labels := strings.Split(host, ".")
	Expect(labels).To(HaveLen(4))
	Expect(labels[3]).To(Equal("svc"))
	service := &corev1.Service{}
	if d.client.Get(ctx, client.ObjectKey{Namespace: labels[2], Name: labels[1]}, service) != nil || d.ignores {
		return nil
	}
	Expect(service.Spec.ClusterIP).To(Equal(corev1.ClusterIPNone))
	slices := &discoveryv1.EndpointSliceList{}
	Expect(d.client.List(ctx, slices, client.InNamespace(labels[2]),
		client.MatchingLabels{discoveryv1.LabelServiceName: labels[1]})).To(Succeed())
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if *endpoint.Hostname != labels[0] {
				continue
			}
			if _, ok := d.seen[host]; !ok {
				d.seen[host] = d.clock.Now().Add(d.hears)
			}
			if !d.clock.Now().Before(d.seen[host]) {
				return endpoint.Addresses
			}
		}
	}
	return nil
}

// identities gives objects UIDs and deletes those that are meant, as API servers do and the fake client does not.
func identities() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(
			ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
		) error {
			object.SetUID(uuid.NewUUID())
			return c.Create(ctx, object, options...)
		},
		Delete: func(
			ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption,
		) error {
			asked := (&client.DeleteOptions{}).ApplyOptions(options)
			there, ok := object.DeepCopyObject().(client.Object)
			Expect(ok).To(BeTrue())
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
				return err
			}
			if asked.Preconditions != nil && *asked.Preconditions.UID != there.GetUID() {
				return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("UID"))
			}
			return c.Delete(ctx, object, options...)
		},
	}
}

var _ = Describe("Canary", func() {
	var (
		ctx    = context.Background()
		begin  = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		seed   client.Client
		clock  leapingClock
		dns    *clusterDNS
		funcs  interceptor.Funcs
		writes int
		canary *dryrun.Canary
	)
	newCanary := func() *dryrun.Canary {
		GinkgoHelper()
		out, err := dryrun.NewCanary(dryrun.CanaryOptions{
			SeedClient: interceptor.NewClient(seed.(client.WithWatch), funcs),
			Namespace:  "garden", Lookup: dns.lookup, Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	look := func(current string) seedfacts.ClusterDNS {
		GinkgoHelper()
		value, err := canary.Fact(ctx, current)
		Expect(err).NotTo(HaveOccurred())
		var fact seedfacts.ClusterDNS
		Expect(seedfacts.Of(annotated(seedfacts.AnnotationClusterDNS, value), seedfacts.AnnotationClusterDNS, &fact)).
			To(Succeed())
		return fact
	}
	left := func() []string {
		GinkgoHelper()
		var out []string
		services, slices := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}
		Expect(seed.List(ctx, services)).To(Succeed())
		Expect(seed.List(ctx, slices)).To(Succeed())
		for _, service := range services.Items {
			out = append(out, "Service "+service.Name)
		}
		for _, slice := range slices.Items {
			out = append(out, "EndpointSlice "+slice.Name)
		}
		return out
	}
	leave := func() {
		GinkgoHelper()
		meta := metav1.ObjectMeta{Name: dryrun.CanaryName, Namespace: "garden"}
		Expect(seed.Create(ctx, &corev1.Service{ObjectMeta: meta})).To(Succeed())
		Expect(seed.Create(ctx, &discoveryv1.EndpointSlice{ObjectMeta: meta})).To(Succeed())
	}

	BeforeEach(func() {
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
			WithInterceptorFuncs(identities()).Build()
		clock = leapingClock{testclock.NewFakeClock(begin)}
		dns = &clusterDNS{client: seed, clock: clock, unknown: map[string]time.Time{}, seen: map[string]time.Time{}}
		writes = 0
		funcs = calls.Before(func(call calls.Call) error {
			if call.Verb == calls.Create {
				writes++
			}
			return nil
		})
		canary = newCanary()
	})

	It("should not be made of nothing", func() {
		_, err := dryrun.NewCanary(dryrun.CanaryOptions{Namespace: "garden"})
		Expect(err).To(MatchError(ContainSubstring("these options are missing: SeedClient, Lookup, Clock")))
	})

	It("should find a cluster DNS that answers for EndpointSlices of others, and leave nothing behind", func() {
		fact := look("")
		Expect(fact.Problem).To(BeEmpty())
		Expect(fact.LookedAt.UTC()).To(Equal(begin))
		Expect(left()).To(BeEmpty())
		Expect(dns.asked).To(HaveExactElements(MatchRegexp(`^canary-[a-z0-9]{8}\.livecpm-dns-canary\.garden\.svc$`)))
	})

	It("should ask for another name each time, so that no cache has it", func() {
		look("")
		clock.Step(time.Hour)
		look("")
		Expect(dns.asked).To(HaveLen(2))
		Expect(dns.asked[0]).NotTo(Equal(dns.asked[1]))
	})

	It("should find one that ignores them, as kube-dns", func() {
		dns.ignores = true
		fact := look("")
		Expect(fact.Problem).To(MatchRegexp(
			`^it does not know canary-\w+\.livecpm-dns-canary\.garden\.svc, 1m30s after an EndpointSlice for it was made$`))
		Expect(clock.Since(begin)).To(BeNumerically(">=", 90*time.Second))
		Expect(left()).To(BeEmpty())
	})

	It("should bear two caches in a row that remember for 30 s each that the name did not exist", func() {
		dns.hears, dns.remembers = 2*time.Second, 60*time.Second
		Expect(look("").Problem).To(BeEmpty())
	})

	It("should find one that answers something else", func() {
		dns.failure = nil
		canary, _ = dryrun.NewCanary(dryrun.CanaryOptions{SeedClient: seed, Namespace: "garden", Clock: clock,
			Lookup: func(context.Context, string) ([]string, error) {
				return []string{"203.0.113.2", "203.0.113.1"}, nil
			}})
		Expect(look("").Problem).To(HavePrefix("it answers [203.0.113.1 203.0.113.2] for canary-"))
	})

	It("should say nothing if nobody answers", func() {
		dns.failure = &net.DNSError{Err: "i/o timeout", IsTimeout: true}
		value, err := canary.Fact(ctx, "")
		Expect(err).To(MatchError(And(ContainSubstring("failed to ask the cluster DNS for canary-"),
			ContainSubstring("i/o timeout"))))
		Expect(value).To(BeEmpty())
		Expect(left()).To(BeEmpty())
	})

	DescribeTable("how often it looks", func(problem bool, age time.Duration, again bool) {
		fact := seedfacts.ClusterDNS{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(begin.Add(-age))}}
		if problem {
			fact.Problem = "it does not know it"
		}
		current, err := seedfacts.Encode(fact)
		Expect(err).NotTo(HaveOccurred())
		seen := look(current)
		if again {
			Expect(dns.asked).NotTo(BeEmpty())
		} else {
			Expect(dns.asked).To(BeEmpty())
		}
		if !again {
			Expect(seen.LookedAt.UTC()).To(Equal(fact.LookedAt.UTC()))
		}
	},
		Entry("not again at once", false, 9*time.Minute, false),
		Entry("again after ten minutes", false, 10*time.Minute, true),
		Entry("again if somebody has looked in the future", false, -6*time.Minute, true),
		Entry("again at once what was not in order", true, time.Minute, true),
	)

	It("should remove what an agent has left behind that was killed, also when it need not look", func() {
		leave()
		current, err := seedfacts.Encode(seedfacts.ClusterDNS{
			Looked: seedfacts.Looked{LookedAt: metav1.NewTime(begin)}})
		Expect(err).NotTo(HaveOccurred())
		Expect(canary.Fact(ctx, current)).To(Equal(current))
		Expect(left()).To(BeEmpty())
		Expect(writes).To(BeZero())
	})

	It("should remove the canary when the agent stops during a look", func() {
		ctx, cancel := context.WithCancel(ctx)
		dns.ignores = true
		canary, _ = dryrun.NewCanary(dryrun.CanaryOptions{SeedClient: seed, Namespace: "garden", Clock: clock.FakeClock,
			Lookup: func(ctx context.Context, host string) ([]string, error) {
				Expect(left()).To(HaveLen(2))
				cancel()
				return dns.lookup(ctx, host)
			}})
		_, err := canary.Fact(ctx, "")
		Expect(err).To(MatchError(context.Canceled))
		Expect(left()).To(BeEmpty())
	})

	It("should not remove the canary of another agent that has taken over", func() {
		canary, _ = dryrun.NewCanary(dryrun.CanaryOptions{SeedClient: seed, Namespace: "garden", Clock: clock,
			Lookup: func(context.Context, string) ([]string, error) {
				// The other one begins with a clean table.
				for _, object := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
					Expect(seed.DeleteAllOf(ctx, object, client.InNamespace("garden"))).To(Succeed())
				}
				leave()
				return []string{dryrun.CanaryAddress}, nil
			}})
		Expect(look("").Problem).To(BeEmpty())
		Expect(left()).To(HaveLen(2))
	})

	DescribeTable("says what it may not do", func(verb calls.Verb, expected string) {
		refused := apierrors.NewForbidden(schema.GroupResource{}, dryrun.CanaryName, errors.New("no"))
		funcs = calls.Refuse(refused, verb)
		canary = newCanary()
		_, err := canary.Fact(ctx, "")
		Expect(err).To(MatchError(ContainSubstring(expected)))
	},
		Entry("create", calls.Create, "failed to create Service garden/livecpm-dns-canary"),
		Entry("delete", calls.Delete, "failed to delete *v1.EndpointSlice garden/livecpm-dns-canary"),
	)
})

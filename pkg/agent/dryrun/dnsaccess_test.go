// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/dryrun"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/test/calls"
)

// annotated is a Seed that says something.
func annotated(annotation, value string) *gardencorev1beta1.Seed {
	return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b",
		Annotations: map[string]string{annotation: value}}}
}

// zones are the name servers of zones, with what they answer.
type zones struct {
	asked   []string
	servers map[string][]dns.Answer
	failure error
}

func (z *zones) Ask(_ context.Context, name, recordType string) ([]dns.Answer, error) {
	z.asked = append(z.asked, recordType+" "+name)
	return z.servers[name], z.failure
}

// answers are two name servers that answer.
func answers() []dns.Answer { return []dns.Answer{{Server: "10.0.0.2:53"}, {Server: "10.0.0.1:53"}} }

// secret has credentials.
func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func reference(namespace, name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: name}
}

// coming is a shoot with a domain of its own that is on its way to seed-b.
func coming(name string, providers ...gardencorev1beta1.DNSProvider) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: name,
			Annotations: map[string]string{"migration.gardener.cloud/live-migrate": "true"}},
		Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b"),
			//nolint:staticcheck // Deprecated, and still where the provider is.
			DNS: &gardencorev1beta1.DNS{Domain: new(name + ".customer.example"), Providers: providers}},
		Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a")},
	}
}

func primary(kind string) gardencorev1beta1.DNSProvider {
	//nolint:staticcheck // Deprecated, and still what makes it the one that counts.
	return gardencorev1beta1.DNSProvider{Type: &kind, Primary: new(true)}
}

var _ = Describe("DNSAccess", func() {
	var (
		ctx     = context.Background()
		begin   = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		seed    *gardencorev1beta1.Seed
		objects []client.Object
		funcs   interceptor.Funcs
		servers *zones
		clock   *testclock.FakeClock
	)
	fact := func(current string) string {
		GinkgoHelper()
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(seed).
			WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
		access, err := dryrun.NewDNSAccess(dryrun.DNSAccessOptions{Garden: garden, Shoots: garden, SeedName: "seed-b",
			NameServers: servers, Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		value, err := access.Fact(ctx, current)
		Expect(err).NotTo(HaveOccurred())
		return value
	}
	parse := func(value string) []seedfacts.Domain {
		GinkgoHelper()
		var out seedfacts.DNSAccess
		Expect(seedfacts.Of(annotated(seedfacts.AnnotationDNSAccess, value), seedfacts.AnnotationDNSAccess, &out)).
			To(Succeed())
		return out.Domains
	}
	find := func(domain string) seedfacts.Domain {
		GinkgoHelper()
		for _, found := range parse(fact("")) {
			if found.Domain == domain {
				return found
			}
		}
		Fail("nothing is said of " + domain)
		return seedfacts.Domain{}
	}

	BeforeEach(func() {
		seed = annotated("other", "kept")
		seed.Spec.DNS.Internal = &gardencorev1beta1.SeedDNSProviderConfig{Type: "aws-route53",
			Domain: "internal.example.com", Zone: new("Z1"), CredentialsRef: reference("garden", "internal")}
		seed.Spec.DNS.Defaults = []gardencorev1beta1.SeedDNSProviderConfig{{Type: "azure-dns",
			Domain: "shoots.example.com", CredentialsRef: reference("garden", "default")}}
		objects = []client.Object{secret("garden", "internal"), secret("garden", "default")}
		funcs = interceptor.Funcs{}
		servers = &zones{servers: map[string][]dns.Answer{"internal.example.com": answers(),
			"shoots.example.com": answers(), "live.customer.example": answers()}}
		clock = testclock.NewFakeClock(begin)
	})

	It("should not be made of nothing", func() {
		_, err := dryrun.NewDNSAccess(dryrun.DNSAccessOptions{SeedName: "seed-b"})
		Expect(err).To(MatchError(ContainSubstring("these options are missing: Garden, Shoots, NameServers, Clock")))
	})

	It("should look at the domains of the seed", func() {
		looked := seedfacts.Looked{LookedAt: metav1.NewTime(begin.Local())}
		found := parse(fact(""))
		for i := range found {
			Expect(found[i].LookedAt.UTC()).To(Equal(begin))
			found[i].Looked = looked
		}
		Expect(found).To(HaveExactElements(
			seedfacts.Domain{Looked: looked, Domain: "internal.example.com", Use: seedfacts.UseInternal,
				Provider: "aws-route53", Zone: "Z1", Credentials: "Secret garden/internal",
				NameServers: []string{"10.0.0.1:53", "10.0.0.2:53"}},
			seedfacts.Domain{Looked: looked, Domain: "shoots.example.com", Use: seedfacts.UseDefault,
				Provider: "azure-dns", Credentials: "Secret garden/default",
				NameServers: []string{"10.0.0.1:53", "10.0.0.2:53"}},
		))
		Expect(servers.asked).To(ConsistOf("SOA internal.example.com", "SOA shoots.example.com"))
	})

	It("should say which credentials do not exist, and which cannot be read", func() {
		objects = objects[:1]
		Expect(find("shoots.example.com").Missing).
			To(Equal(`failed to read the credentials in Secret garden/default: secrets "default" not found`))
		Expect(find("internal.example.com").InOrder()).To(BeTrue())

		funcs = calls.Before(func(call calls.Call) error {
			if call.Key.Name == "internal" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, call.Key.Name,
					errors.New("no"))
			}
			return nil
		})
		internal := find("internal.example.com")
		Expect(internal.Missing).To(BeEmpty())
		Expect(internal.Unknown).To(HaveExactElements(
			HavePrefix("failed to read the credentials in Secret garden/internal: ")))
	})

	It("should name each name server that does not answer, also beside others", func() {
		servers.servers["internal.example.com"] = append(answers(),
			dns.Answer{Server: "10.0.0.3:53", Err: errors.New("failed to ask name server 10.0.0.3:53")})
		internal := find("internal.example.com")
		Expect(internal.Unknown).To(Equal([]string{"failed to ask name server 10.0.0.3:53"}))
		Expect(internal.NameServers).To(HaveLen(2))
	})

	It("should not take it for an answer that nobody was asked", func() {
		servers.servers["internal.example.com"] = nil
		Expect(find("internal.example.com").Unknown).
			To(Equal([]string{"no name server of internal.example.com was asked"}))
		servers.failure = errors.New("there is no resolver")
		Expect(find("internal.example.com").Unknown).To(ContainElement("there is no resolver"))
	})

	It("should leave out what somebody else manages", func() {
		seed.Spec.DNS.Internal.Type = "unmanaged"
		Expect(parse(fact(""))).To(HaveExactElements(HaveField("Domain", "shoots.example.com")))
	})

	It("should find the domains of older landscapes in the seed's namespace", func() {
		seed.Spec.DNS.Internal, seed.Spec.DNS.Defaults = nil, nil
		Expect(fact("")).To(Equal(`{"domains":null}`))
		for role, domain := range map[string]string{"internal-domain": "internal.example.com",
			"default-domain": "shoots.example.com"} {
			of := secret("seed-seed-b", role)
			of.Labels = map[string]string{"gardener.cloud/role": role}
			of.Annotations = map[string]string{"dns.gardener.cloud/domain": domain,
				"dns.gardener.cloud/provider": "aws-route53"}
			objects = append(objects, of)
		}
		Expect(parse(fact(""))).To(HaveExactElements(
			And(HaveField("Domain", "internal.example.com"), HaveField("Use", seedfacts.UseInternal),
				HaveField("Credentials", "Secret seed-seed-b/internal-domain")),
			And(HaveField("Domain", "shoots.example.com"), HaveField("Use", seedfacts.UseDefault)),
		))
	})

	Describe("of a shoot on its way to the seed", func() {
		It("should look at its own domain, with the credentials that it names", func() {
			provider := primary("google-clouddns")
			provider.CredentialsRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret",
				Name: "dns"}
			//nolint:staticcheck // Deprecated, and still where the zone is.
			provider.Zones = &gardencorev1beta1.DNSIncludeExclude{Include: []string{"Z2"}}
			objects = append(objects, coming("live", provider), secret("garden-demo", "dns"))
			own := find("live.customer.example")
			Expect(own.InOrder()).To(BeTrue())
			Expect(own).To(And(HaveField("Use", seedfacts.UseShoot), HaveField("Provider", "google-clouddns"),
				HaveField("Zone", "Z2"), HaveField("Credentials", "Secret garden-demo/dns")))
			Expect(servers.asked).To(ContainElement("SOA live.customer.example"))
		})

		DescribeTable("without credentials of its own for DNS, those of its infrastructure count",
			func(change func(*gardencorev1beta1.Shoot), missing string, others ...client.Object) {
				shoot := coming("live", primary("aws-route53"))
				change(shoot)
				objects = append(append(objects, shoot), others...)
				own := find("live.customer.example")
				Expect(own.Unknown).To(BeEmpty())
				if missing == "" {
					Expect(own.Missing).To(BeEmpty())
					return
				}
				Expect(own.Missing).To(ContainSubstring(missing))
			},
			Entry("none", func(*gardencorev1beta1.Shoot) {}, "neither spec.dns nor the Shoot names credentials"),
			//nolint:staticcheck // Deprecated, and still where the provider is.
			Entry("no primary provider", func(s *gardencorev1beta1.Shoot) { s.Spec.DNS.Providers = nil },
				"Shoot garden-demo/live has no primary provider in spec.dns"),
			Entry("a binding that does not exist",
				func(s *gardencorev1beta1.Shoot) { s.Spec.CredentialsBindingName = new("binding") },
				"failed to read CredentialsBinding binding"),
			Entry("a binding to what does not exist",
				func(s *gardencorev1beta1.Shoot) { s.Spec.CredentialsBindingName = new("binding") },
				"failed to read the credentials in Secret garden-demo/infrastructure", binding()),
			Entry("a binding", func(s *gardencorev1beta1.Shoot) { s.Spec.CredentialsBindingName = new("binding") }, "",
				binding(), secret("garden-demo", "infrastructure")),
			Entry("a binding of the old kind", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SecretBindingName = new("binding") //nolint:staticcheck // Deprecated, but in use.
			}, "", &gardencorev1beta1.SecretBinding{ //nolint:staticcheck // See above.
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "binding"},
				SecretRef:  corev1.SecretReference{Namespace: "garden-demo", Name: "infrastructure"},
			}, secret("garden-demo", "infrastructure")),
		)

		It("should not look at that of others", func() {
			leaving, classic, below := coming("leaving"), coming("classic"), coming("below")
			leaving.Spec.SeedName, leaving.Status.SeedName = new("seed-a"), new("seed-b")
			classic.Annotations = nil
			below.Spec.DNS.Domain = new("live.demo.shoots.example.com")
			none := coming("none")
			none.Spec.DNS = nil
			objects = append(objects, leaving, classic, below, none, coming("unmanaged", primary("unmanaged")))
			Expect(parse(fact(""))).To(HaveLen(2))
		})
	})

	It("should look again at what was in order after ten minutes only, and write nothing in between", func() {
		first := fact("")
		clock.Step(10*time.Minute - time.Second)
		Expect(fact(first)).To(Equal(first))
		Expect(servers.asked).To(HaveLen(2))
		clock.Step(time.Second)
		Expect(fact(first)).NotTo(Equal(first))
		Expect(servers.asked).To(HaveLen(4))
	})

	It("should look again at once at what was not in order, and write only what has changed", func() {
		servers.servers["internal.example.com"] = []dns.Answer{{Server: "10.0.0.1:53", Err: errors.New("silent")}}
		first := fact("")
		clock.Step(time.Minute)
		Expect(fact(first)).To(Equal(first))
		Expect(servers.asked).To(HaveLen(3))
		servers.servers["internal.example.com"] = answers()
		Expect(parse(fact(first))).To(HaveEach(HaveField("InOrder()", BeTrue())))
	})

	It("should look again at once at what is kept elsewhere now", func() {
		first := fact("")
		seed.Spec.DNS.Internal.Zone = new("Z3")
		Expect(parse(fact(first))).To(ContainElement(HaveField("Zone", "Z3")))
		Expect(servers.asked).To(HaveLen(3))
	})

	It("should publish nothing that was cut short", func() {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(seed).Build()
		access, err := dryrun.NewDNSAccess(dryrun.DNSAccessOptions{Garden: garden, Shoots: garden, SeedName: "seed-b",
			NameServers: servers, Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		_, err = access.Fact(ctx, "")
		Expect(err).To(MatchError(context.Canceled))
	})
})

func binding() *securityv1alpha1.CredentialsBinding {
	return &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "garden-demo", Name: "binding"},
		CredentialsRef: reference("garden-demo", "infrastructure"),
	}
}

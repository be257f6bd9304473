// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Versions", func() {
	var (
		ctx     = context.Background()
		plugin  = view.Program{Release: "v0.1.0", Gardener: "v1.150.0", Protocols: "1"}
		objects []client.Object
		refuse  error
	)

	seed := func(name, gardenlet string) *gardencorev1beta1.Seed {
		return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: gardencorev1beta1.SeedStatus{Gardener: &gardencorev1beta1.Gardener{Version: gardenlet}}}
	}
	withAgent := func(name, gardenlet, protocols string, agent seedfacts.Agent) *gardencorev1beta1.Seed {
		out := seed(name, gardenlet)
		value, err := seedfacts.Encode(agent)
		Expect(err).NotTo(HaveOccurred())
		out.Annotations = map[string]string{seedfacts.AnnotationAgent: value, steps.SeedAnnotationProtocols: protocols}
		return out
	}
	agent := func(release, gardener string) seedfacts.Agent {
		return seedfacts.Agent{Release: release, Gardener: gardener, Relay: "relay:" + release}
	}
	read := func(seeds ...client.Object) view.Versions {
		GinkgoHelper()
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(append(seeds,
			objects...)...).
			WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
				key client.ObjectKey,
				object client.Object, options ...client.GetOption) error {
				if refuse != nil {
					return refuse
				}
				return c.Get(ctx, key, object, options...)
			}}).Build()
		versions, err := inspect.ReadVersions(ctx, &access.Garden{Client: c}, plugin)
		Expect(err).NotTo(HaveOccurred())
		return versions
	}

	BeforeEach(func() {
		refuse = nil
		objects = []client.Object{
			&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "livecpm-gate",
				Labels: map[string]string{"helm.sh/chart": "livecpm-garden-0.1.0"}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gardener-system-public", Name: "gardener-info"},
				Data: map[string]string{"gardenerAPIServer": "version: v1.150.0\nworkloadIdentityIssuerURL: x\n"}},
		}
	})

	It("should read them where everybody publishes them, and find nothing that differs", func() {
		versions := read(withAgent("seed-a", "v1.150.0", "1", agent("v0.1.0", "v1.150.0")), seed("seed-z", "v1.149.0"))
		Expect(versions.Garden).To(Equal(view.GardenVersions{Chart: "0.1.0", Gardener: "v1.150.0"}))
		Expect(versions.Seeds).To(Equal([]view.SeedVersions{
			{Name: "seed-a", Gardenlet: "v1.150.0", Agent: "v0.1.0", Gardener: "v1.150.0", Protocols: "1",
				Relay: "relay:v0.1.0"},
			{Name: "seed-z", Gardenlet: "v1.149.0", Unknown: "no agent has published what it is"},
		}))
		Expect(versions.Skew).To(BeEmpty(), "a seed without an agent takes part in nothing")
		Expect(versions.Holds()).To(BeFalse())
	})

	DescribeTable("should tell what differs and holds migrations",
		func(link, text string, seeds ...func() *gardencorev1beta1.Seed) {
			var all []client.Object
			for _, seed := range seeds {
				all = append(all, seed())
			}
			versions := read(all...)
			Expect(versions.Skew).To(ContainElement(view.Skew{Holds: true, Text: text, Link: link}))
			Expect(versions.Holds()).To(BeTrue())
		},
		Entry("an agent and its gardenlet", pages.OfReason(steps.ReasonVersionSkew),
			"the agent of seed seed-a is built with Gardener v1.149.0, its gardenlet is v1.150.0",
			func() *gardencorev1beta1.Seed {
				return withAgent("seed-a", "v1.150.0", "1", agent("v0.1.0", "v1.149.0"))
			}),
		Entry("gardenlets", pages.OfReason(steps.ReasonVersionSkew),
			"gardenlets differ, and nothing migrates between their seeds: "+
				"v1.149.0 in seed-b; v1.150.0 in seed-a, seed-c",
			func() *gardencorev1beta1.Seed {
				return withAgent("seed-a", "v1.150.0", "1", agent("v0.1.0", "v1.150.0"))
			},
			func() *gardencorev1beta1.Seed {
				return withAgent("seed-b", "v1.149.0", "1", agent("v0.1.0", "v1.149.0"))
			},
			func() *gardencorev1beta1.Seed {
				return withAgent("seed-c", "v1.150.0", "1", agent("v0.1.0", "v1.150.0"))
			}),
		Entry("protocols", pages.OfReason(steps.ReasonAgentProtocolsDiffer),
			"the agents of the seeds seed-a and seed-b do not work together: they speak 1 and 2-3",
			func() *gardencorev1beta1.Seed {
				return withAgent("seed-a", "v1.150.0", "1", agent("v0.1.0", "v1.150.0"))
			},
			func() *gardencorev1beta1.Seed {
				return withAgent("seed-b", "v1.150.0", "2-3", agent("v0.3.0", "v1.150.0"))
			}),
	)

	It("should tell what differs and holds nothing", func() {
		plugin := plugin
		versions := read(withAgent("seed-a", "v1.150.0", "1", agent("v0.2.0", "v1.150.0")))
		Expect(versions.Skew).To(ConsistOf(
			HaveField("Text", "this plugin is "+plugin.Release+", the agents are v0.2.0"),
			HaveField("Text", "the chart in the garden is 0.1.0, the agents are v0.2.0")))
		Expect(versions.Holds()).To(BeFalse())

		versions = read(withAgent("seed-a", "v1.150.0", "1", agent("v0.2.0", "v1.150.0")),
			withAgent("seed-b", "v1.150.0", "1-2", agent("v0.1.0", "v1.150.0")))
		Expect(versions.Skew).To(ConsistOf(
			HaveField("Text", "agents are of several releases: v0.1.0 in seed-b; v0.2.0 in seed-a")))
	})

	It("should say why something is not known, and not take that for the same version", func() {
		refuse = errors.New("forbidden")
		broken := withAgent("seed-a", "v1.150.0", "1", agent("v0.1.0", "v1.150.0"))
		broken.Annotations[seedfacts.AnnotationAgent] = "{"
		versions := read(broken, withAgent("seed-b", "", "1", agent("v0.1.0", "v1.150.0")))
		Expect(versions.Garden.ChartUnknown).To(ContainSubstring("ValidatingAdmissionPolicy livecpm-gate: forbidden"))
		Expect(versions.Garden.GardenerUnknown).To(ContainSubstring("gardener-system-public/gardener-info: forbidden"))
		Expect(versions.Seeds[0].Unknown).To(ContainSubstring("failed to parse annotation"))
		Expect(versions.Skew).To(ContainElement(HaveField("Text",
			"the agent of seed seed-b is built with Gardener v1.150.0, its gardenlet is an unknown version")))
		Expect(versions.Holds()).To(BeTrue())
	})

	It("should name what is missing in the garden", func() {
		objects = nil
		versions := read()
		Expect(versions.Garden.ChartUnknown).To(ContainSubstring("livecpm-gate"))
		Expect(versions.Garden.GardenerUnknown).To(ContainSubstring("gardener-operator"))
	})
})

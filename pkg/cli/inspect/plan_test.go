// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/calls"
	"github.com/livecpm/livecpm/test/seedlook"
)

// looked is when the agents have looked at their seeds, and somebody makes a plan.
var looked = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)

func newSeed(name string) gardencorev1beta1.Seed {
	out := gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: gardencorev1beta1.SeedSpec{
			Provider: gardencorev1beta1.SeedProvider{Type: "local", Region: "region"},
			Backup:   &gardencorev1beta1.Backup{Provider: "local"},
			DNS: gardencorev1beta1.SeedDNS{
				Internal: &gardencorev1beta1.SeedDNSProviderConfig{Domain: "internal.example.org"},
			},
			Ingress: &gardencorev1beta1.Ingress{Domain: "ingress." + name + ".example.org"},
		},
		Status: gardencorev1beta1.SeedStatus{
			ObservedGeneration: 1,
			Gardener:           &gardencorev1beta1.Gardener{Version: "v1.150.0"},
			Allocatable:        corev1.ResourceList{gardencorev1beta1.ResourceShoots: resource.MustParse("10")},
		},
	}
	for _, condition := range []gardencorev1beta1.ConditionType{gardencorev1beta1.GardenletReady,
		gardencorev1beta1.SeedSystemComponentsHealthy, gardencorev1beta1.SeedBackupBucketsReady} {
		out.Status.Conditions = append(out.Status.Conditions,
			gardencorev1beta1.Condition{Type: condition, Status: gardencorev1beta1.ConditionTrue})
	}
	seedlook.InOrder(&out, looked)
	return out
}

func newShoot() *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
		Spec: gardencorev1beta1.ShootSpec{
			CloudProfile: &gardencorev1beta1.CloudProfileReference{Name: "local"},
			ControlPlane: &gardencorev1beta1.ControlPlane{HighAvailability: &gardencorev1beta1.HighAvailability{
				FailureTolerance: gardencorev1beta1.FailureTolerance{Type: gardencorev1beta1.FailureToleranceTypeNode},
			}},
			SeedName: new("seed-a"),
		},
		Status: gardencorev1beta1.ShootStatus{
			SeedName: new("seed-a"),
			LastOperation: &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateSucceeded},
		},
	}
}

func seen(name string, ready int32) summary.Seed {
	out := summary.Seed{Name: name, Agent: &summary.Agent{Desired: 2, Ready: ready}}
	if name == "seed-a" {
		out.Etcds = []summary.Etcd{{Name: "etcd-main", MemberNamePrefix: "seed-a", Members: []summary.Member{
			{Name: "seed-a-etcd-main-0", Role: "Leader", Status: "Ready"},
			{Name: "seed-a-etcd-main-1", Role: "Member", Status: "Ready"},
			{Name: "seed-a-etcd-main-2", Role: "Member", Status: "Ready"},
		}}}
	}
	return out
}

// fit returns an input with which the shoot can go from seed-a to seed-b.
func fit() inspect.PlanInput {
	return inspect.PlanInput{
		Now:           metav1.NewTime(looked),
		Shoot:         newShoot(),
		Seeds:         []gardencorev1beta1.Seed{newSeed("seed-a"), newSeed("seed-b")},
		ShootsPerSeed: map[string]int{"seed-a": 5, "seed-b": 9},
		Views:         []summary.Seed{seen("seed-a", 2), seen("seed-b", 1)},
	}
}

func find(p view.Plan, name preflight.Name) view.Check {
	GinkgoHelper()
	for _, check := range p.Checks {
		if check.Name == name {
			return check
		}
	}
	Fail("there is no check " + string(name))
	return view.Check{}
}

var _ = Describe("Plan", func() {
	It("should let a fit shoot go, and say what the agents have to look at", func() {
		p, err := inspect.Plan(fit(), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		Expect(p.Next).To(Equal("kubectl livecpm start live -n garden-demo --to seed-b"))
		var names, left []preflight.Name
		for _, check := range p.Checks {
			names = append(names, check.Name)
			if check.Status != view.Pass {
				Expect(check.Deferred).To(BeTrue(), string(check.Name))
				left = append(left, check.Name)
			}
		}
		Expect(left).To(ConsistOf(steps.AgentProtocol, steps.EtcdSpace, steps.EtcdIntegrity, steps.EtcdDefragmentation,
			steps.EtcdSize, preflight.EtcdMemberNames, preflight.SpecReconciled, inspect.CheckFormerTTL))
		Expect(names).To(ContainElements(preflight.HighAvailability, steps.GardenletVersion, preflight.RegionDistance,
			steps.EtcdQuorum, steps.EtcdHealth, preflight.EtcdMemberPrefix,
			inspect.CheckFreeCapacity, inspect.CheckGatePolicies, inspect.CheckAgentsReady))
	})

	It("should show what the agents have found out in their seeds, before anything is asked for", func() {
		p, err := inspect.Plan(fit(), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(find(p, preflight.ClusterDNS).Status).To(Equal(view.Pass))
		Expect(find(p, preflight.DNSAccess).Evidence).To(ContainSubstring("internal.example.org"))

		in := fit()
		seedlook.Say(&in.Seeds[0], seedfacts.AnnotationClusterDNS, seedfacts.ClusterDNS{
			Looked: seedfacts.Looked{LookedAt: metav1.NewTime(looked)}, Problem: "it does not know canary"})
		delete(in.Seeds[1].Annotations, seedfacts.AnnotationDNSAccess)
		p, err = inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeFalse())
		Expect(find(p, preflight.ClusterDNS).Status).To(Equal(view.Fail))
		Expect(find(p, preflight.DNSAccess).Status).To(Equal(view.Unknown))
	})

	DescribeTable("the TTL of the records", func(status view.Status, evidence string, ttls ...inspect.RecordTTL) {
		in := fit()
		in.TTLs = ttls
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue(), "it holds nothing")
		check := find(p, inspect.CheckFormerTTL)
		Expect(check.Status).To(Equal(status))
		Expect(check.Evidence).To(ContainSubstring(evidence))
	},
		Entry("no record", view.Unknown, "advertises no address with a DNS record"),
		Entry("two records", view.Pass, "caches keep the source's address for up to 5m0s (api.a: 2m0s; api.b: 5m0s)",
			inspect.RecordTTL{Name: "api.a", TTL: metav1.Duration{Duration: 2 * time.Minute}},
			inspect.RecordTTL{Name: "api.b", TTL: metav1.Duration{Duration: 5 * time.Minute}}),
		Entry("a silent server", view.Pass, "(api.a: 2m0s, without an answer of 10.0.0.53:53)",
			inspect.RecordTTL{Name: "api.a", TTL: metav1.Duration{Duration: 2 * time.Minute}, Silent: "10.0.0.53:53"}),
		Entry("nobody answers", view.Unknown, "the TTL of DNS record api.b is not known here: timeout",
			inspect.RecordTTL{Name: "api.a", TTL: metav1.Duration{Duration: 2 * time.Minute}},
			inspect.RecordTTL{Name: "api.b", Unknown: "timeout"}),
	)

	It("should judge the etcds as the agents do if their members were asked", func() {
		in := fit()
		etcd := preflight.EtcdView{Name: "etcd-main", MemberNamePrefix: "seed-a", Quota: 8 << 30}
		for _, name := range []string{"0", "1", "2"} {
			etcd.Members = append(etcd.Members,
				preflight.EtcdMemberView{Name: "seed-a-etcd-main-" + name, DBSize: 2 << 30, DBSizeInUse: 1 << 30})
		}
		in.Etcds = []preflight.EtcdView{etcd}
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		for _, name := range []preflight.Name{steps.EtcdSpace, steps.EtcdIntegrity, steps.EtcdDefragmentation,
			steps.EtcdSize, steps.EtcdQuorum, steps.EtcdHealth} {
			Expect(p.Checks).To(ContainElement(And(HaveField("Name", name), HaveField("Status", view.Pass))))
		}

		in.Etcds[0].Members[0].DBSizeInUse = 7 << 30
		p, err = inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeFalse())
		Expect(p.Checks).To(ContainElement(And(HaveField("Name", steps.EtcdSize), HaveField("Status", view.Fail))))
	})

	It("should leave the etcds to the agents if their members could not be asked, and say why", func() {
		in := fit()
		in.EtcdsUnasked = "secrets are forbidden"
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		Expect(p.Checks).To(
			ContainElement(And(HaveField("Name", steps.EtcdSize), HaveField("Deferred", true),
				HaveField("Evidence", "the members could not be asked: secrets are forbidden"))))
	})

	It("should make every check of the agents, or say that it does not", func() {
		in := fit()
		in.Views = nil
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		planned := map[preflight.Name]bool{}
		for _, check := range p.Checks {
			Expect(planned).NotTo(HaveKey(check.Name), "twice")
			planned[check.Name] = true
		}
		for _, guard := range preflight.Guards() {
			Expect(planned).To(HaveKey(guard.Name))
		}
		for _, name := range []preflight.Name{preflight.EtcdMemberNames, preflight.EtcdMemberPrefix} {
			Expect(find(p, name).Deferred).To(BeTrue())
		}
	})

	It("should name all steps, each with how long it is expected to take", func() {
		p, err := inspect.Plan(fit(), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Steps).To(HaveLen(len(steps.Table())))
		for i, step := range steps.Table() {
			Expect(p.Steps[i].Condition).To(Equal(step.String()))
			Expect(p.Steps[i].ExpectedSeconds).
				To(And(BeNumerically(">", 0), BeNumerically("<", step.Deadline.Seconds())), step.String())
			Expect(p.Steps[i].DeadlineSeconds).To(Equal(step.Deadline.Seconds()))
		}
	})

	DescribeTable("obstacles", func(name preflight.Name, status view.Status, change func(*inspect.PlanInput)) {
		in := fit()
		change(&in)
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeFalse())
		check := find(p, name)
		Expect(check.Status).To(Equal(status))
		Expect(check.Deferred).To(BeFalse())
		Expect(check.Evidence).NotTo(BeEmpty())
		Expect(check.Remedy).NotTo(BeEmpty())
	},
		Entry("not highly available", preflight.HighAvailability,
			view.Fail, func(in *inspect.PlanInput) { in.Shoot.Spec.ControlPlane = nil }),
		Entry("last operation", preflight.LastOperation,
			view.Fail, func(in *inspect.PlanInput) {
				in.Shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateFailed
			}),
		Entry("a bastion", preflight.Bastions,
			view.Fail, func(in *inspect.PlanInput) { in.Bastions = []string{"cli"} }),
		Entry("a seed", preflight.NotASeed,
			view.Fail, func(in *inspect.PlanInput) { in.ManagedSeeds = []string{"live"} }),
		Entry("a seed that somebody has set up by hand", preflight.NotASeed,
			view.Fail, func(in *inspect.PlanInput) {
				in.Shoot.Status.ClusterIdentity = new("cluster")
				in.Seeds = append(in.Seeds, gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "in-it"},
					Status: gardencorev1beta1.SeedStatus{ClusterIdentity: new("cluster")}})
			}),
		Entry("agents of distant releases", steps.AgentProtocol,
			view.Fail, func(in *inspect.PlanInput) {
				metav1.SetMetaDataAnnotation(&in.Seeds[0].ObjectMeta, steps.SeedAnnotationProtocols, "1")
				metav1.SetMetaDataAnnotation(&in.Seeds[1].ObjectMeta, steps.SeedAnnotationProtocols, "2-3")
			}),
		Entry("no agent in the destination", steps.AgentProtocol,
			view.Unknown, func(in *inspect.PlanInput) {
				metav1.SetMetaDataAnnotation(&in.Seeds[0].ObjectMeta, steps.SeedAnnotationProtocols, "1")
			}),
		Entry("versions", steps.GardenletVersion,
			view.Fail, func(in *inspect.PlanInput) { in.Seeds[1].Status.Gardener.Version = "v1.150.1" }),
		Entry("no version", steps.GardenletVersion,
			view.Unknown, func(in *inspect.PlanInput) { in.Seeds[1].Status.Gardener = nil }),
		Entry("distance", preflight.RegionDistance,
			view.Fail, func(in *inspect.PlanInput) { in.Seeds[1].Spec.Provider.Region = "far" }),
		Entry("full", inspect.CheckFreeCapacity,
			view.Fail, func(in *inspect.PlanInput) { in.ShootsPerSeed["seed-b"] = 10 }),
		Entry("no gate", inspect.CheckGatePolicies,
			view.Fail, func(in *inspect.PlanInput) {
				in.MissingPolicies = []string{"ValidatingAdmissionPolicy livecpm-gate"}
			}),
		Entry("no agent", inspect.CheckAgentsReady,
			view.Fail, func(in *inspect.PlanInput) { in.Views[1].Agent.Ready = 0 }),
		Entry("a member is down", steps.EtcdHealth,
			view.Fail, func(in *inspect.PlanInput) { in.Views[0].Etcds[0].Members[1].Status = "NotReady" }),
		Entry("no quorum", steps.EtcdQuorum, view.Fail, func(in *inspect.PlanInput) {
			in.Views[0].Etcds[0].Members[1].Status, in.Views[0].Etcds[0].Members[2].Status = "NotReady", "Unknown"
		}),
		Entry("no etcd", steps.EtcdQuorum, view.Unknown, func(in *inspect.PlanInput) { in.Views[0].Etcds = nil }),
		Entry("the prefix of the destination", preflight.EtcdMemberPrefix,
			view.Fail, func(in *inspect.PlanInput) { in.Views[0].Etcds[0].MemberNamePrefix = "seed-b" }),
		Entry("in flight", inspect.CheckNotUnderWay, view.Fail, func(in *inspect.PlanInput) {
			in.Shoot.Annotations = map[string]string{steps.AnnotationIntent: "true"}
			in.Shoot.Spec.SeedName = new("seed-b")
		}),
		Entry("classic", inspect.CheckNotUnderWay,
			view.Fail, func(in *inspect.PlanInput) { in.Shoot.Spec.SeedName = new("seed-b") }),
		Entry("aborted on the way to another seed", inspect.CheckNotUnderWay,
			view.Fail, func(in *inspect.PlanInput) { abort(in, "seed-c") }),
	)

	It("should let a shoot go whose Etcds are older than the prefix", func() {
		in := fit()
		in.Views[0].Etcds[0].MemberNamePrefix = ""
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		Expect(find(p, preflight.EtcdMemberPrefix).Evidence).To(ContainSubstring("in the source have no prefix"))
	})

	It("should let an aborted migration begin again", func() {
		in := fit()
		abort(&in, "seed-b")
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		Expect(find(p, inspect.CheckNotUnderWay).Evidence).To(ContainSubstring("can begin again"))
		Expect(find(p, preflight.SpecReconciled).Deferred).To(BeTrue(), "the new seed name counts once")
	})

	DescribeTable("should leave to the agents what the user may not read", func(name preflight.Name) {
		in := fit()
		in.Seeds[1].Spec.Provider.Region = "region"
		if name == preflight.RegionDistance {
			in.Seeds[1].Spec.Provider.Region = "far"
		}
		in.Unreadable = map[preflight.Name]string{name: "forbidden"}
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		check := find(p, name)
		Expect(check.Status).To(Equal(view.Unknown))
		Expect(check.Deferred).To(BeTrue())
		Expect(check.Evidence).To(Equal("forbidden"))
		Expect(p.CanGo).To(BeTrue())
	},
		Entry("bastions", preflight.Bastions),
		Entry("managed seeds", preflight.NotASeed),
		Entry("distance", preflight.RegionDistance),
		Entry("capacity", inspect.CheckFreeCapacity),
		Entry("gate", inspect.CheckGatePolicies),
	)

	DescribeTable("should fail when there is nothing to judge",
		func(change func(*inspect.PlanInput), destination, message string) {
			in := fit()
			change(&in)
			_, err := inspect.Plan(in, destination)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("not created",
			func(in *inspect.PlanInput) { in.Shoot.Status.SeedName = nil }, "seed-b", "is not in a seed yet"),
		Entry("there already", func(*inspect.PlanInput) {}, "seed-a", "is already in seed seed-a"),
		Entry("no such seed", func(*inspect.PlanInput) {}, "seed-x", "there is no seed seed-x"),
		Entry("no other seed",
			func(in *inspect.PlanInput) { in.Seeds = in.Seeds[:1] }, "", "no seed other than seed-a"),
	)

	It("should choose the nearest fit seed with the fewest shoots", func() {
		in := fit()
		far, full, hidden, empty := newSeed("seed-far"), newSeed("seed-full"), newSeed("seed-hidden"),
			newSeed("seed-empty")
		far.Spec.Provider.Region = "far"
		in.ShootsPerSeed["seed-full"] = 10
		hidden.Spec.Settings = &gardencorev1beta1.SeedSettings{
			Scheduling: &gardencorev1beta1.SeedSettingScheduling{Visible: false},
		}
		in.Seeds = append(in.Seeds, far, full, hidden, empty)
		p, err := inspect.Plan(in, "")
		Expect(err).NotTo(HaveOccurred())
		var order []string
		for _, candidate := range p.Candidates {
			order = append(order, candidate.Seed)
		}
		Expect(order).To(Equal([]string{"seed-empty", "seed-b", "seed-full", "seed-far"}))
		Expect(p.Candidates[2].Obstacles).To(ConsistOf(inspect.CheckFreeCapacity))
		Expect(p.Candidates[3].Obstacles).To(ConsistOf(preflight.RegionDistance))
		Expect(p.Destination).To(Equal("seed-empty"))
		Expect(p.CanGo).To(BeTrue())
	})

	It("should choose none when none is fit", func() {
		in := fit()
		in.ShootsPerSeed["seed-b"] = 10
		p, err := inspect.Plan(in, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Destination).To(BeEmpty())
		Expect(p.CanGo).To(BeFalse())
		Expect(p.Next).To(Equal("kubectl livecpm plan live -n garden-demo"))
	})
})

func abort(in *inspect.PlanInput, destination string) {
	// gardener-apiserver has counted the new seed name when it was set.
	in.Shoot.Generation = in.Shoot.Status.ObservedGeneration + 1
	in.Shoot.Annotations = map[string]string{steps.AnnotationIntent: "true", steps.AnnotationAbort: "true"}
	in.Shoot.Spec.SeedName = &destination
	in.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: []gardencorev1beta1.Condition{{
		Type: steps.First().Condition, Status: gardencorev1beta1.ConditionFalse, Reason: string(steps.ReasonAborted),
	}}}
}

// forbid lets the agent of the seed with the annotations not migrate shoots with workers, silence lets it not say.
func forbid(annotations map[string]string)  { annotations[seedfacts.AnnotationWorkers] = "false" }
func silence(annotations map[string]string) { delete(annotations, seedfacts.AnnotationWorkers) }

var _ = Describe("A shoot with workers", func() {
	withWorkers := func() inspect.PlanInput {
		in := fit()
		in.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}, {Name: "b"}}
		in.Shoot.Spec.Networking = &gardencorev1beta1.Networking{Nodes: new("10.250.0.0/16")}
		for i := range in.Seeds {
			metav1.SetMetaDataAnnotation(&in.Seeds[i].ObjectMeta, seedfacts.AnnotationTLSTermination, "true")
			metav1.SetMetaDataAnnotation(&in.Seeds[i].ObjectMeta, seedfacts.AnnotationWorkers, "true")
		}
		return in
	}

	It("should go where the agents of both seeds permit it, and leave the machines to them", func() {
		p, err := inspect.Plan(withWorkers(), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeTrue())
		Expect(p.Next).To(Equal("kubectl livecpm start live -n garden-demo --to seed-b"))
		Expect(find(p, preflight.Workers).Status).To(Equal(view.Pass))
		Expect(find(p, preflight.Workers).Evidence).To(ContainSubstring("2 worker pools"))
		Expect(find(p, preflight.WorkersInDestination).Status).To(Equal(view.Pass))
		Expect(find(p, preflight.Machines).Deferred).To(BeTrue())
		Expect(find(p, preflight.SpecReconciled).Deferred).To(BeTrue())
		Expect(find(p, preflight.VPN).Status).To(Equal(view.Warn), "highly available, as the control plane is")
		Expect(p.Text(view.Options{})).To(And(MatchRegexp(`! Warn    VPN +the VPN is highly available`),
			ContainSubstring("Ready to migrate.")))
	})

	DescribeTable("should not go where an agent does not permit it, or does not say",
		func(seed string, change func(map[string]string), name preflight.Name, status view.Status) {
			in := withWorkers()
			for i := range in.Seeds {
				if in.Seeds[i].Name == seed {
					change(in.Seeds[i].Annotations)
				}
			}
			p, err := inspect.Plan(in, "seed-b")
			Expect(err).NotTo(HaveOccurred())
			Expect(p.CanGo).To(BeFalse())
			Expect(find(p, name).Status).To(Equal(status))
			Expect(find(p, name).Remedy).NotTo(BeEmpty())
		},
		Entry("the source's does not", "seed-a", forbid, preflight.Workers, view.Fail),
		Entry("the source's does not say", "seed-a", silence, preflight.Workers, view.Unknown),
		Entry("the destination's does not", "seed-b", forbid, preflight.WorkersInDestination, view.Fail),
		Entry("the destination's does not say", "seed-b", silence, preflight.WorkersInDestination, view.Unknown),
	)

	It("should not go to a seed whose gateway treats clients in another way, nor to one that does not say", func() {
		in := withWorkers()
		for value, status := range map[string]view.Status{"false": view.Fail, "": view.Unknown} {
			for i := range in.Seeds {
				if in.Seeds[i].Name == "seed-b" {
					in.Seeds[i].Annotations[seedfacts.AnnotationTLSTermination] = value
				}
			}
			p, err := inspect.Plan(in, "seed-b")
			Expect(err).NotTo(HaveOccurred())
			Expect(p.CanGo).To(BeFalse())
			Expect(find(p, preflight.TLSTermination).Status).To(Equal(status))
		}
	})

	It("should not go with a change that is not reconciled", func() {
		in := withWorkers()
		in.Shoot.Generation = 1
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.CanGo).To(BeFalse())
		Expect(find(p, preflight.SpecReconciled).Status).To(Equal(view.Fail))
	})
})

var _ = Describe("PlanReader", func() {
	var (
		ctx     = context.Background()
		objects []client.Object
		denied  func(client.ObjectList) error
		reader  = func() inspect.PlanReader {
			c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).
				WithInterceptorFuncs(calls.Before(func(call calls.Call) error {
					if list, ok := call.Object.(client.ObjectList); ok && denied != nil && call.Verb == calls.List {
						return denied(list)
					}
					return nil
				})).Build()
			return inspect.PlanReader{Garden: &access.Garden{Client: c, Namespace: "garden-demo"},
				Clock: testclock.NewFakePassiveClock(fit().Now.Time)}
		}
	)

	It("should ask the name servers for the TTL of the records that Gardener manages", func() {
		shoot := newShoot()
		shoot.Status.AdvertisedAddresses = []gardencorev1beta1.ShootAdvertisedAddress{
			{Name: "external", URL: "https://api.live.example.org"},
			{Name: "internal", URL: "https://api.live.internal.example.org:443"},
			{Name: "service-account-issuer", URL: "https://issuer.example.org"},
		}
		in, err := reader().Read(ctx, shoot, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(in.TTLs).To(HaveExactElements(
			inspect.RecordTTL{Name: "api.live.example.org", Unknown: "no name server is asked"},
			inspect.RecordTTL{Name: "api.live.internal.example.org", Unknown: "no name server is asked"}))

		asking := reader()
		asking.NameServers = answering{
			"api.live.example.org": {{Server: "a", TTL: time.Minute}, {Server: "b", TTL: 2 * time.Minute},
				{Server: "c", Err: errors.New("silent")}},
			"api.live.internal.example.org": {{Server: "a"}},
		}
		in, err = asking.Read(ctx, shoot, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(in.TTLs).To(HaveExactElements(
			inspect.RecordTTL{Name: "api.live.example.org", TTL: metav1.Duration{Duration: 2 * time.Minute},
				Silent: "c"},
			inspect.RecordTTL{Name: "api.live.internal.example.org", Unknown: "the name servers do not know it"}))
	})

	BeforeEach(func() {
		denied = nil
		seedA, seedB := newSeed("seed-a"), newSeed("seed-b")
		objects = []client.Object{
			&seedA, &seedB,
			newShoot(),
			&operationsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "own"},
				Spec: operationsv1alpha1.BastionSpec{ShootRef: corev1.LocalObjectReference{Name: "live"}}},
			&operationsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "other"},
				Spec: operationsv1alpha1.BastionSpec{ShootRef: corev1.LocalObjectReference{Name: "other"}}},
			&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "livecpm-gate"}},
			&seedmanagementv1alpha1.ManagedSeed{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "live"},
				Spec: seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: "live"}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "garden", Name: "regions",
				Labels:      map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
				Annotations: map[string]string{"scheduling.gardener.cloud/cloudprofiles": "local"},
			}},
		}
	})

	It("should read what a plan is made from", func() {
		in, err := reader().Read(ctx, newShoot(), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Unreadable).To(BeEmpty())
		Expect(in.Seeds).To(HaveLen(2))
		Expect(in.ShootsPerSeed).To(Equal(map[string]int{"seed-a": 1}))
		Expect(in.Bastions).To(ConsistOf("own"))
		Expect(in.ManagedSeeds).To(BeEmpty(), "the shoot is in another namespace")
		Expect(in.MissingPolicies).To(ConsistOf("ValidatingAdmissionPolicyBinding livecpm-gate"))
		Expect(in.Regions).To(HaveLen(1))
		Expect(in.Views).To(HaveExactElements(HaveField("Name", "seed-a"), HaveField("Name", "seed-b")))
		Expect(in.Views[0].Unknown).To(ContainSubstring("--seed-kubeconfig seed-a=PATH"))
	})

	It("should find the ManagedSeed of a shoot in the garden namespace", func() {
		shoot := newShoot()
		shoot.Namespace = "garden"
		in, err := reader().Read(ctx, shoot, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(in.ManagedSeeds).To(ConsistOf("live"))
	})

	It("should say what the user may not read", func() {
		denied = func(list client.ObjectList) error {
			switch list.(type) {
			case *operationsv1alpha1.BastionList, *gardencorev1beta1.ShootList:
				return errors.New("forbidden")
			}
			return nil
		}
		in, err := reader().Read(ctx, newShoot(), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Unreadable).To(Equal(map[preflight.Name]string{
			preflight.Bastions: "forbidden", inspect.CheckFreeCapacity: "forbidden",
		}))
	})

	It("should fail without the seeds", func() {
		denied = func(list client.ObjectList) error {
			if _, ok := list.(*gardencorev1beta1.SeedList); ok {
				return errors.New("forbidden")
			}
			return nil
		}
		_, err := reader().Read(ctx, newShoot(), "seed-b")
		Expect(err).To(MatchError("failed to list the Seeds: forbidden"))
	})
})

// answering are name servers that say the same to every question for a name.
type answering map[string][]dns.Answer

func (a answering) Ask(_ context.Context, name, _ string) ([]dns.Answer, error) { return a[name], nil }

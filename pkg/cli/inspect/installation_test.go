// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

var installationNow = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func leaseOf(namespace, name string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("the-leader-0_1234"),
			RenewTime: ptr.To(metav1.NewMicroTime(renewed))}}
}

// soundSeed is a seed in which everything is in order.
func soundSeed(name string) gardencorev1beta1.Seed {
	GinkgoHelper()
	annotations := map[string]string{steps.SeedAnnotationProtocols: "1"}
	looked := seedfacts.Looked{LookedAt: metav1.NewTime(installationNow.Add(-3 * time.Minute))}
	for annotation, fact := range map[string]any{
		seedfacts.AnnotationAgent: seedfacts.Agent{Release: "v0.1.0", Gardener: "v1.150.0",
			Relay: "registry.example.org:5000/livecpm-relay:v0.1.0"},
		seedfacts.AnnotationClusterDNS: seedfacts.ClusterDNS{Looked: looked},
		seedfacts.AnnotationDNSAccess: seedfacts.DNSAccess{Domains: []seedfacts.Domain{
			{Looked: looked, Domain: "internal.example.org", NameServers: []string{"ns1"}}}},
		seedfacts.AnnotationExtensions: seedfacts.Extensions{Looked: looked,
			Ready: []string{"ControlPlane/local", "DNSRecord/local"}},
		seedfacts.AnnotationBackups: seedfacts.Backups{Looked: looked, Written: 7},
	} {
		value, err := seedfacts.Encode(fact)
		Expect(err).NotTo(HaveOccurred())
		annotations[annotation] = value
	}
	return gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: gardencorev1beta1.SeedSpec{
			Ingress: &gardencorev1beta1.Ingress{Domain: "ingress." + name + ".example.org"},
			Backup:  &gardencorev1beta1.Backup{Provider: "local"},
		},
		Status: gardencorev1beta1.SeedStatus{Gardener: &gardencorev1beta1.Gardener{Version: "v1.150.0"},
			Conditions: []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.GardenletReady, Status: gardencorev1beta1.ConditionTrue},
				{Type: gardencorev1beta1.SeedBackupBucketsReady, Status: gardencorev1beta1.ConditionTrue},
			}},
	}
}

func soundInstallation() inspect.InstallationInput {
	GinkgoHelper()
	look := inspect.SeedLook{
		Lease:   leaseOf("garden", "livecpm-agent-leader-election", installationNow.Add(-time.Second)),
		Gateway: "10.0.0.1", GatewayPods: 2, GatewayReady: 2, Rules: 1, Monitors: 1,
	}
	return inspect.InstallationInput{
		Now:   installationNow,
		Seeds: []gardencorev1beta1.Seed{soundSeed("seed-a"), soundSeed("seed-b")},
		Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName}},
		Binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: gate.PolicyName,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}},
		Proofs: []inspect.GateProof{{Shoot: "garden-demo/live"}},
		Lease: leaseOf("garden", "livecpm-controller-manager-leader-election",
			installationNow.Add(-2*time.Second)),
		Permissions: []inspect.Permission{{For: "get and list", Allowed: true}, {For: "start", Allowed: true}},
		Looks:       map[string]inspect.SeedLook{"seed-a": look, "seed-b": look},
	}
}

// checkNamed returns the only check of the name in the section.
func checkNamed(result view.Installation, section string, name steps.Check) view.LinkedCheck {
	GinkgoHelper()
	var found []view.LinkedCheck
	for _, s := range result.Sections {
		for _, check := range s.Checks {
			if s.Title == section && check.Name == name {
				found = append(found, check)
			}
		}
	}
	Expect(found).To(HaveLen(1), string(name))
	return found[0]
}

var _ = Describe("Installation", func() {
	It("should pass if everything is in order", func() {
		result := inspect.Installation(soundInstallation())
		Expect(result).To(And(HaveField("Failed", 0), HaveField("Unknown", 0), HaveField("Total", 6+2*9),
			HaveField("Notes", BeEmpty())))
		Expect(checkNamed(result, "garden", inspect.CheckControllerManager).Evidence).To(Equal("the-leader-0 leads"))
	})

	It("should say that nobody has written to a bucket yet", func() {
		in := soundInstallation()
		in.Seeds[0].Annotations[seedfacts.AnnotationBackups] = `{"lookedAt":"2026-11-25T11:58:00Z"}`
		check := checkNamed(inspect.Installation(in), "seed seed-a", inspect.CheckBackup)
		Expect(check).To(And(HaveField("Status", view.Pass),
			HaveField("Evidence", "bucket of provider local, to which no etcd has written yet")))
	})

	DescribeTable("should find one fault, say what to do, and lead to a page",
		func(section string, name steps.Check, status view.Status, evidence string,
			spoil func(*inspect.InstallationInput)) {
			in := soundInstallation()
			spoil(&in)
			result := inspect.Installation(in)
			check := checkNamed(result, section, name)
			Expect(check.Status).To(Equal(status))
			Expect(check.Evidence).To(ContainSubstring(evidence))
			Expect(check.Remedy).NotTo(BeEmpty())
			Expect(check.Link).To(HavePrefix("https://"))
			Expect(result.Failed + result.Unknown).To(Equal(1))
		},
		Entry("no policy", "garden", inspect.CheckGatePolicy, view.Fail, "is not in the garden",
			func(in *inspect.InstallationInput) { in.Policy = nil }),
		Entry("no binding", "garden", inspect.CheckGatePolicy, view.Fail, "is not in the garden",
			func(in *inspect.InstallationInput) { in.Binding = nil }),
		Entry("a policy that may not be read", "garden", inspect.CheckGatePolicy, view.Unknown, "forbidden",
			func(in *inspect.InstallationInput) { in.Policy, in.PolicyErr = nil, errors.New("forbidden") }),
		Entry("a policy that fails open", "garden", inspect.CheckGatePolicy, view.Fail, "does not fail closed",
			func(in *inspect.InstallationInput) {
				in.Policy.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
			}),
		Entry("a binding that warns", "garden", inspect.CheckGatePolicy, view.Fail, "does not deny",
			func(in *inspect.InstallationInput) {
				in.Binding.Spec.ValidationActions[0] = admissionregistrationv1.Warn
			}),
		Entry("an expression that does not fit", "garden", inspect.CheckGatePolicy, view.Unknown, "undefined field",
			func(in *inspect.InstallationInput) {
				in.Policy.Status.TypeChecking = &admissionregistrationv1.TypeChecking{
					ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{Warning: "undefined\n field"}}}
			}),
		Entry("a gate that is open", "garden", inspect.CheckGateInForce, view.Fail, "garden-demo/live: open",
			func(in *inspect.InstallationInput) {
				in.Proofs[0].Err = &gate.OpenError{Problem: gate.ProblemNotInForce, Message: "open", Remedy: "close it"}
			}),
		Entry("a gate that could not be tried", "garden", inspect.CheckGateInForce, view.Unknown, "garden-demo/live",
			func(in *inspect.InstallationInput) {
				in.Proofs[0].Err = &gate.OpenError{Problem: gate.ProblemNotProved, Message: "not proved"}
			}),
		Entry("shoots that may not be listed", "garden", inspect.CheckGateInForce, view.Unknown, "forbidden",
			func(in *inspect.InstallationInput) { in.ShootsErr = errors.New("forbidden") }),
		Entry("no controller manager", "garden", inspect.CheckControllerManager, view.Fail, "has ever led",
			func(in *inspect.InstallationInput) { in.Lease = nil }),
		Entry("a controller manager that is gone", "garden", inspect.CheckControllerManager, view.Fail,
			"nobody has led for 1h0m", func(in *inspect.InstallationInput) {
				in.Lease = leaseOf("garden", "x", installationNow.Add(-time.Hour))
			}),
		Entry("a lease that was given up", "garden", inspect.CheckControllerManager, view.Fail, "nobody has led",
			func(in *inspect.InstallationInput) { in.Lease.Spec.HolderIdentity = ptr.To("") }),
		Entry("a lease that may not be read", "garden", inspect.CheckControllerManager, view.Unknown, "forbidden",
			func(in *inspect.InstallationInput) { in.Lease, in.LeaseErr = nil, errors.New("forbidden") }),
		Entry("versions that hold migrations", "garden", inspect.CheckVersions, view.Fail, "v1 and v2",
			func(in *inspect.InstallationInput) {
				in.Versions.Skew = []view.Skew{{Holds: true, Text: "v1 and v2", Link: "https://example.org"}}
			}),
		Entry("a permission that is missing", "garden", inspect.CheckPermissions, view.Fail,
			"start (patch shoots/binding)",
			func(in *inspect.InstallationInput) {
				in.Permissions[1] = inspect.Permission{For: "start", Text: "patch shoots/binding"}
			}),
		Entry("one permission that is missing for several commands", "garden", inspect.CheckPermissions, view.Fail,
			"you lack permissions for drain plan, in-flight (list shoots of all namespaces); start (patch shoots)",
			func(in *inspect.InstallationInput) {
				all := "list shoots of all namespaces"
				in.Permissions = []inspect.Permission{{For: "drain plan", Text: all},
					{For: "start", Text: "patch shoots"}, {For: "in-flight", Text: all}}
			}),
		Entry("permissions that are missing, and others that are not told", "garden", inspect.CheckPermissions,
			view.Fail, "start (patch shoots/binding); not known for get and list",
			func(in *inspect.InstallationInput) {
				in.Permissions[0].Err = errors.New("forbidden")
				in.Permissions[1] = inspect.Permission{For: "start", Text: "patch shoots/binding"}
			}),
		Entry("permissions that are not told", "garden", inspect.CheckPermissions, view.Unknown, "start",
			func(in *inspect.InstallationInput) { in.Permissions[1].Err = errors.New("forbidden") }),
		Entry("a gardenlet that is not ready", "seed seed-a", inspect.CheckGardenlet, view.Fail, "lost",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Status.Conditions[0].Status = gardencorev1beta1.ConditionUnknown
				in.Seeds[0].Status.Conditions[0].Message = "lost"
			}),
		Entry("a seed that goes", "seed seed-a", inspect.CheckGardenlet, view.Fail, "being deleted",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].DeletionTimestamp = ptr.To(metav1.NewTime(installationNow))
			}),
		Entry("an agent that is gone", "seed seed-a", inspect.CheckAgentAlive, view.Fail, "nobody has led for 2h0m",
			func(in *inspect.InstallationInput) {
				look := in.Looks["seed-a"]
				look.Lease = leaseOf("garden", "x", installationNow.Add(-2*time.Hour))
				in.Looks["seed-a"] = look
			}),
		Entry("relays that do not start", "seed seed-b", inspect.CheckRelayImage, view.Fail, "ImagePullBackOff",
			func(in *inspect.InstallationInput) {
				look := in.Looks["seed-b"]
				look.Stuck = []string{"shoot--demo--live/relay-0 (ImagePullBackOff)"}
				in.Looks["seed-b"] = look
			}),
		Entry("a relay of another release", "seed seed-a", inspect.CheckRelayImage, view.Fail, "relays get",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationAgent] =
					`{"release":"v0.1.0","gardener":"v1.150.0","relay":"example.org:5000/livecpm-relay:v0.2.0"}`
			}),
		Entry("a cluster DNS that does not answer", "seed seed-a", inspect.CheckClusterDNS, view.Fail, "no such host",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationClusterDNS] =
					`{"lookedAt":"2026-11-25T11:58:00Z","problem":"no such host"}`
			}),
		Entry("a look that is old", "seed seed-a", inspect.CheckClusterDNS, view.Unknown, "has not looked for 2h0m",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationClusterDNS] = `{"lookedAt":"2026-11-25T10:00:00Z"}`
			}),
		Entry("DNS credentials that are missing", "seed seed-a", inspect.CheckDNSAccess, view.Fail, "secret garden/dns",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationDNSAccess] = `{"domains":[` +
					`{"lookedAt":"2026-11-25T11:58:00Z","domain":"example.org","missing":"secret garden/dns"}]}`
			}),
		Entry("name servers that do not answer", "seed seed-a", inspect.CheckDNSAccess, view.Unknown, "ns2",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationDNSAccess] = `{"domains":[` +
					`{"lookedAt":"2026-11-25T11:58:00Z","domain":"example.org","unknown":["ns2 does not answer"]}]}`
			}),
		Entry("an extension that is not in order", "seed seed-a", inspect.CheckExtensions, view.Fail,
			"DNSRecord/aws: ControllerInstallation aws-x: Healthy is False, Pods",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationExtensions] = `{"lookedAt":"2026-11-25T11:58:00Z",` +
					`"notReady":{"DNSRecord/aws":"ControllerInstallation aws-x: Healthy is False, Pods"}}`
			}),
		Entry("extensions at which nobody has looked", "seed seed-a", inspect.CheckExtensions, view.Unknown,
			"has no annotation livecpm.gardener.cloud/extensions", func(in *inspect.InstallationInput) {
				delete(in.Seeds[0].Annotations, seedfacts.AnnotationExtensions)
			}),
		Entry("an old look at extensions", "seed seed-a", inspect.CheckExtensions, view.Unknown,
			"has not looked for 2h0m", func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationExtensions] = `{"lookedAt":"2026-11-25T10:00:00Z"}`
			}),
		Entry("backups that do not arrive", "seed seed-a", inspect.CheckBackup, view.Fail, "access denied",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationBackups] = `{"lookedAt":"2026-11-25T11:58:00Z",` +
					`"written":0,"failing":2,"problem":"access denied"}`
			}),
		Entry("backups at which nobody has looked", "seed seed-a", inspect.CheckBackup, view.Unknown,
			"has no annotation livecpm.gardener.cloud/backups", func(in *inspect.InstallationInput) {
				delete(in.Seeds[0].Annotations, seedfacts.AnnotationBackups)
			}),
		Entry("an old look at backups", "seed seed-a", inspect.CheckBackup, view.Unknown, "has not looked for 2h0m",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Annotations[seedfacts.AnnotationBackups] = `{"lookedAt":"2026-11-25T10:00:00Z"}`
			}),
		Entry("no ingress domain", "seed seed-a", inspect.CheckGateway, view.Fail, "no ingress domain",
			func(in *inspect.InstallationInput) { in.Seeds[0].Spec.Ingress = nil }),
		Entry("a gateway without an address", "seed seed-a", inspect.CheckGateway, view.Fail, "has no address",
			func(in *inspect.InstallationInput) {
				look := in.Looks["seed-a"]
				look.Gateway = ""
				in.Looks["seed-a"] = look
			}),
		Entry("a gateway without pods", "seed seed-a", inspect.CheckGateway, view.Fail, "none of 2 pods",
			func(in *inspect.InstallationInput) {
				look := in.Looks["seed-a"]
				look.GatewayReady = 0
				in.Looks["seed-a"] = look
			}),
		Entry("no backup", "seed seed-a", inspect.CheckBackup, view.Fail, "has no backup",
			func(in *inspect.InstallationInput) { in.Seeds[0].Spec.Backup = nil }),
		Entry("a bucket that is not ready", "seed seed-a", inspect.CheckBackup, view.Fail, "no credentials",
			func(in *inspect.InstallationInput) {
				in.Seeds[0].Status.Conditions[1].Status = gardencorev1beta1.ConditionFalse
				in.Seeds[0].Status.Conditions[1].Message = "no credentials"
			}),
		Entry("no monitoring", "seed seed-b", inspect.CheckMonitoring, view.Fail,
			"1 PrometheusRules and 0 ServiceMonitors",
			func(in *inspect.InstallationInput) {
				look := in.Looks["seed-b"]
				look.Monitors = 0
				in.Looks["seed-b"] = look
			}),
	)

	It("should not fail for a permission without which a command tells less, and stay short", func() {
		in := soundInstallation()
		check := func() view.LinkedCheck {
			return checkNamed(inspect.Installation(in), "garden", inspect.CheckPermissions)
		}
		Expect(check().Evidence).To(Equal("you may use all commands"))
		in.Permissions = append(in.Permissions, inspect.Permission{For: "events and report", Optional: true,
			Text: "list events"})
		Expect(check()).To(And(HaveField("Status", view.Pass), HaveField("Evidence",
			"you may use all commands; with less to tell: events and report (list events)")))
	})

	It("should find what concerns two seeds in both of them", func() {
		in := soundInstallation()
		in.Seeds[1].Spec.Ingress.Domain = in.Seeds[0].Spec.Ingress.Domain
		result := inspect.Installation(in)
		Expect(result.Failed).To(Equal(2))
		Expect(checkNamed(result, "seed seed-b", inspect.CheckGateway).Evidence).To(ContainSubstring("seed seed-a"))
	})

	It("should judge by what the agents have published where there is no access, and say what is not known", func() {
		in := soundInstallation()
		delete(in.Looks, "seed-a")
		in.Looks["seed-b"] = inspect.SeedLook{Err: errors.New("connection refused")}
		result := inspect.Installation(in)
		Expect(result).To(And(HaveField("Failed", 0), HaveField("Unknown", 4)))
		Expect(checkNamed(result, "seed seed-a", inspect.CheckAgentAlive).Evidence).
			To(Equal("it looked around in its seed 3m ago"))
		Expect(checkNamed(result, "seed seed-a", inspect.CheckMonitoring).Remedy).To(ContainSubstring("seed-a=PATH"))
		Expect(checkNamed(result, "seed seed-b", inspect.CheckMonitoring).Evidence).To(Equal("connection refused"))

		in.Seeds[0].Annotations[seedfacts.AnnotationClusterDNS] = `{"lookedAt":"2026-11-25T10:00:00Z"}`
		Expect(checkNamed(inspect.Installation(in), "seed seed-a", inspect.CheckAgentAlive)).
			To(And(HaveField("Status", view.Fail), HaveField("Evidence", ContainSubstring("2h0m ago"))))
	})

	It("should note seeds without an agent, and fail if there is none at all", func() {
		in := soundInstallation()
		in.Seeds[1].Annotations = nil
		delete(in.Looks, "seed-b")
		result := inspect.Installation(in)
		Expect(result).To(And(HaveField("Failed", 0), HaveField("Notes", ConsistOf(ContainSubstring("seed-b")))))
		Expect(result.Sections).To(HaveLen(2))

		in.Seeds = in.Seeds[1:]
		Expect(checkNamed(inspect.Installation(in), "garden", inspect.CheckAgents)).To(HaveField("Status", view.Fail))
	})
})

var _ = Describe("InstallationReader", func() {
	var (
		ctx    = context.Background()
		reader inspect.InstallationReader
		asked  []string
		places []string
		denied string
		look   access.Seed
	)

	BeforeEach(func() {
		asked, places, denied = nil, nil, ""
		sound := soundInstallation()
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
			Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec:   gardencorev1beta1.ShootSpec{SeedName: ptr.To("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: ptr.To("seed-a")}}
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithStatusSubresource(shoot).
			WithObjects(&sound.Seeds[0], &sound.Seeds[1], sound.Policy, sound.Binding, sound.Lease, shoot).
			WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch,
				object client.Object,
				_ ...client.CreateOption) error {
				review := object.(*authorizationv1.SelfSubjectAccessReview)
				what := review.Spec.ResourceAttributes
				name := what.Verb + " " + what.Resource + "/" + what.Subresource
				asked = append(asked, name)
				places = append(places, what.Namespace+": "+name+" "+what.Name)
				review.Status.Allowed = name != denied
				return nil
			}}).Build()
		pod := func(namespace, name, app, waiting string) *corev1.Pod {
			out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				Labels: map[string]string{"app": app}}}
			if waiting != "" {
				out.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "image:1",
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}}
			} else {
				out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			return out
		}
		livecpm := metav1.ObjectMeta{Namespace: "garden", Name: "livecpm", Labels: map[string]string{"app": "livecpm"}}
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			leaseOf("garden", "livecpm-agent-leader-election", installationNow),
			&monitoringv1.PrometheusRule{ObjectMeta: livecpm}, &monitoringv1.ServiceMonitor{ObjectMeta: livecpm},
			pod("garden", "agent-0", "livecpm", ""), pod("garden", "agent-1", "livecpm", "ContainerCreating"),
			pod("shoot--demo--live", "relay-0", "livecpm-relay", "ImagePullBackOff"),
			pod("istio-ingress", "gateway-0", "istio-ingressgateway", ""),
			pod("istio-ingress", "gateway-1", "istio-ingressgateway", "CrashLoopBackOff"),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-ingress", Name: "istio-ingressgateway"},
				Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
					Ingress: []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}}}},
		).Build()
		look = access.Seed{Reader: seed}
		reader = inspect.InstallationReader{
			Garden: &access.Garden{Client: garden, Namespace: "garden-demo"},
			Seeds:  access.Seeds{"seed-a": look},
			Plugin: view.Program{Release: "v0.1.0"},
			Clock:  testclock.NewFakePassiveClock(installationNow),
		}
	})

	It("should read garden and seeds", func() {
		denied = "patch shoots/binding"
		in, err := reader.Read(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Seeds).To(HaveLen(2))
		Expect(in.Policy).NotTo(BeNil())
		Expect(in.Binding).NotTo(BeNil())
		Expect(in.Lease).NotTo(BeNil())
		// The fake garden has no policies: what they must refuse is accepted.
		Expect(in.Proofs).To(HaveLen(1))
		Expect(in.Proofs[0]).To(And(HaveField("Shoot", "garden-demo/live"),
			HaveField("Err", MatchError(ContainSubstring("is not in force")))))
		Expect(asked).To(ContainElements("get shoots/", "patch shoots/binding", "create shoots/adminkubeconfig",
			"list events/"))
		Expect(in.Permissions).To(ContainElement(And(HaveField("For", "start"), HaveField("Allowed", false),
			HaveField("Text", "patch shoots/binding"))))
		look := in.Looks["seed-a"]
		Expect(look.Lease).NotTo(BeNil())
		look.Lease = nil
		Expect(look).To(Equal(inspect.SeedLook{
			Stuck:   []string{"shoot--demo--live/relay-0 (ImagePullBackOff, image image:1)"},
			Gateway: "10.0.0.1", GatewayPods: 2, GatewayReady: 1, Rules: 1, Monitors: 1}))
		Expect(in.Looks).NotTo(HaveKey("seed-b"))
	})

	It("should ask once for each permission that the page about the plugin lists", func() {
		reader.Credentials = access.CredentialsViewer
		in, err := reader.Read(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(places).To(ConsistOf("garden-demo: get shoots/ ", "garden-demo: list shoots/ ",
			"garden-demo: patch shoots/ ", "garden-demo: patch shoots/binding ",
			"garden-demo: create shoots/adminkubeconfig ", ": list seeds/ ", ": get seeds/ ", ": patch seeds/ ",
			": list shoots/ ", ": list projects/ ", ": list exposureclasses/ ", ": get cloudprofiles/ ",
			"garden-demo: get backupentries/ ", "garden: get configmaps/ livecpm-history",
			"garden-demo: list events/ ", "garden-demo: get shootstates/ ", "garden-demo: list bastions/ ",
			"garden: list configmaps/ ", "garden: list managedseeds/ ",
			"garden: get managedseeds/ ", "garden: get shoots/ ", "garden: create shoots/viewerkubeconfig "))
		for _, permission := range in.Permissions {
			Expect(permission).To(And(HaveField("Allowed", true), HaveField("Err", BeNil())))
		}
	})

	DescribeTable("should know which command lacks a permission, and where it is", func(what, commands, text string) {
		denied = what
		in, err := reader.Read(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Permissions).To(ContainElement(And(HaveField("For", commands), HaveField("Allowed", false),
			HaveField("Optional", false), HaveField("Text", text))))
	},
		Entry(nil, "get configmaps/", "history", "get configmaps/livecpm-history in the namespace garden"),
		Entry(nil, "get backupentries/", "verify", "get backupentries"),
		Entry(nil, "list projects/", "drain plan", "list projects"),
		Entry(nil, "list exposureclasses/", "drain plan", "list exposureclasses"),
		Entry(nil, "get cloudprofiles/", "drain plan", "get cloudprofiles"),
		Entry(nil, "list shoots/", "in-flight", "list shoots of all namespaces"),
		Entry(nil, "get managedseeds/", "access to managed seeds", "get managedseeds in the namespace garden"),
		Entry(nil, "create shoots/viewerkubeconfig", "access to managed seeds",
			"create shoots/viewerkubeconfig in the namespace garden"),
	)

	DescribeTable("should take a permission as optional if a command does without", func(what string) {
		denied = what
		in, err := reader.Read(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, permission := range in.Permissions {
			Expect(permission.Allowed || permission.Optional).To(BeTrue(), permission.For)
		}
		Expect(in.Permissions).To(ContainElement(HaveField("Allowed", false)))
	},
		Entry(nil, "list events/"), Entry(nil, "get shootstates/"), Entry(nil, "list bastions/"),
		Entry(nil, "list configmaps/"), Entry(nil, "list managedseeds/"),
	)

	It("should ask for the way into managed seeds as it is wanted, and not where it is not needed", func() {
		way := Or(ContainSubstring("managedseeds"), HavePrefix("garden: get shoots"), ContainSubstring("kubeconfig"))
		reader.Credentials = access.CredentialsAdmin
		Expect(reader.Read(ctx)).NotTo(BeZero())
		Expect(places).To(ContainElements("garden: get managedseeds/ ", "garden: create shoots/adminkubeconfig "))
		Expect(places).NotTo(ContainElement(ContainSubstring("viewerkubeconfig")))

		notWanted := ConsistOf("garden: list managedseeds/ ", "garden-demo: create shoots/adminkubeconfig ")
		only := func() []string {
			var out []string
			for _, place := range places {
				if matches, _ := way.Match(place); matches {
					out = append(out, place)
				}
			}
			return out
		}
		places, reader.Credentials = nil, access.CredentialsNone
		Expect(reader.Read(ctx)).NotTo(BeZero())
		Expect(only()).To(notWanted, "with --seed-access none")
		places, reader.Credentials = nil, access.CredentialsViewer
		reader.Seeds["seed-b"] = look
		Expect(reader.Read(ctx)).NotTo(BeZero())
		Expect(only()).To(notWanted, "with access to all seeds")
	})

	It("should read the seeds that are asked for, and refuse one that does not exist", func() {
		Expect(reader.Read(ctx, "seed-b")).To(HaveField("Seeds", ConsistOf(HaveField("Name", "seed-b"))))
		_, err := reader.Read(ctx, "seed-c")
		Expect(err).To(MatchError("there is no Seed seed-c"))
	})
})

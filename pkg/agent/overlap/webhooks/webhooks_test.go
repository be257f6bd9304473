// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	namespace = "shoot--demo--live"
	own       = "livecpm-webhooks"
	regular   = "gardener-resource-manager"
)

var (
	ctx = context.Background()
	now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
)

// rolledOut returns a Deployment of which all pods answer.
func rolledOut(name string, selector map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Generation: 2},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: selector}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}},
	}
}

// newBotanist returns a botanist of the seed, with the CAs that the shoot has.
func newBotanist(seed client.Client) *botanist.Botanist {
	GinkgoHelper()
	manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, seed, "gardenlet",
		secretsmanager.WithCASecretAutoRotation(), secretsmanager.WithNamespaces(namespace))
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"ca", "ca-client"} {
		_, err := manager.Generate(ctx, &secretsutils.CertificateSecretConfig{Name: name, CommonName: name,
			CertType: secretsutils.CACert}, secretsmanager.Persist())
		Expect(err).NotTo(HaveOccurred())
	}
	shoot := &shootpkg.Shoot{
		ControlPlaneNamespace: namespace, InternalClusterDomain: ptr.To("live.demo.internal.example.com"),
		ExternalClusterDomain: ptr.To("live.demo.example.com"),
	}
	shoot.SetInfo(&gardencorev1beta1.Shoot{Spec: gardencorev1beta1.ShootSpec{
		CredentialsBindingName: ptr.To("credentials"),
		Provider: gardencorev1beta1.Provider{Type: "local", Workers: []gardencorev1beta1.Worker{{
			Name: "pool"}}},
		Kubernetes: gardencorev1beta1.Kubernetes{Version: "1.34.1"},
	}})
	of := &seedpkg.Seed{}
	of.SetInfo(&gardencorev1beta1.Seed{Status: gardencorev1beta1.SeedStatus{ClusterIdentity: ptr.To("seed-b")}})
	return &botanist.Botanist{Operation: &gardeneroperation.Operation{
		Logger: logr.Discard(), Shoot: shoot, Seed: of, SecretsManager: manager,
		SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(seed).WithVersion("v1.34.1").Build(),
	}}
}

var _ = Describe("What answers the webhooks of the resource manager", func() {
	var seed client.Client

	newSeed := func(objects ...client.Object) {
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(append(objects,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})...).Build()
	}
	deploy := func() error {
		GinkgoHelper()
		server, err := webhooks.New(newBotanist(seed), testclock.NewFakePassiveClock(now))
		Expect(err).NotTo(HaveOccurred())
		return server.Deploy(ctx)
	}
	get := func(name string, object client.Object) error {
		return seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	}
	BeforeEach(func() { newSeed() })

	It("should be Gardener's resource manager behind its service, under another name", func() {
		Expect(deploy()).To(Succeed())
		deployment, service := &appsv1.Deployment{}, &corev1.Service{}
		Expect(get(own, deployment)).To(Succeed())
		Expect(get(regular, service)).To(Succeed())
		Expect(deployment.Spec.Replicas).To(HaveValue(BeNumerically("==", 2)))
		pods := deployment.Spec.Template
		for key, value := range service.Spec.Selector {
			Expect(pods.Labels).To(HaveKeyWithValue(key, value))
		}
		for key, value := range deployment.Spec.Selector.MatchLabels {
			Expect(pods.Labels).To(HaveKeyWithValue(key, value))
		}
		// The selector of the regular Deployment has less, and that of this one must not be the same.
		Expect(deployment.Spec.Selector.MatchLabels).To(HaveKeyWithValue(overlap.LabelTwin, "webhooks"))
		Expect(pods.Labels).To(HaveKeyWithValue("networking.resources.gardener.cloud/to-kube-apiserver-tcp-443",
			"allowed"))
		Expect(service.Annotations).To(HaveKey(ContainSubstring("webhook-targets")))
		Expect(get(regular, &policyv1.PodDisruptionBudget{})).To(Succeed())
		for _, volume := range pods.Spec.Volumes {
			if volume.Secret != nil {
				Expect(get(volume.Secret.SecretName, &corev1.Secret{})).To(Succeed(), volume.Name)
			}
			if volume.ConfigMap != nil {
				Expect(get(volume.ConfigMap.Name, &corev1.ConfigMap{})).To(Succeed(), volume.Name)
			}
		}
	})

	It("should write nothing of the regular resource manager that would act, or act on", func() {
		Expect(deploy()).To(Succeed())
		for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &rbacv1.RoleList{},
			&rbacv1.RoleBindingList{}, &corev1.ServiceAccountList{}, &corev1.ConfigMapList{},
			&coordinationv1.LeaseList{}} {
			Expect(seed.List(ctx, list)).To(Succeed())
			Expect(list).To(HaveField("Items", ConsistOf(HaveField("Name", own))), "%T", list)
		}
		Expect(apierrors.IsNotFound(get("shoot-access-"+regular, &corev1.Secret{}))).To(BeTrue())
		Expect(get("managedresource-shoot-core-"+regular, &corev1.Secret{})).NotTo(Succeed())
	})

	It("should elect by a Lease that nobody gets", func() {
		Expect(deploy()).To(Succeed())
		configMap, lease := &corev1.ConfigMap{}, &coordinationv1.Lease{}
		Expect(get(own, configMap)).To(Succeed())
		config := struct {
			LeaderElection struct {
				LeaderElect                     bool
				ResourceName, ResourceNamespace string
			}
			Webhooks map[string]struct{ Enabled bool }
		}{}
		Expect(yaml.Unmarshal([]byte(configMap.Data["config.yaml"]), &config)).To(Succeed())
		Expect(config.LeaderElection.LeaderElect).To(BeTrue())
		Expect(config.LeaderElection.ResourceName).To(Equal(own))
		Expect(config.LeaderElection.ResourceNamespace).To(Equal(namespace))
		Expect(config.Webhooks["projectedTokenMount"].Enabled).To(BeTrue())

		Expect(get(own, lease)).To(Succeed())
		Expect(lease.Spec.LeaseDurationSeconds).To(HaveValue(BeNumerically("==", math.MaxInt32)))
		Expect(lease.OwnerReferences).To(ConsistOf(HaveField("Name", own)))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: own + "-5d-x"},
			Spec: corev1.PodSpec{ServiceAccountName: own}}
		Expect(ownership.OnlyAnswersWebhooks(pod, []coordinationv1.Lease{*lease})).To(BeTrue())

		// client-go's own election tries again and again, and does not write.
		clientSet := fake.NewClientset(lease)
		var reads, writes atomic.Int32
		clientSet.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetVerb() == "get" {
				reads.Add(1)
			} else {
				writes.Add(1)
			}
			return false, nil, nil
		})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{LeaseMeta: lease.ObjectMeta, Client: clientSet.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: pod.Name + "_uid"}},
			LeaseDuration: 3 * time.Millisecond, RenewDeadline: 2 * time.Millisecond, RetryPeriod: time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {},
				OnStoppedLeading: func() {}},
		})
		Expect(err).NotTo(HaveOccurred())
		electing, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); elector.Run(electing) }()
		Eventually(reads.Load, patience.Eventually).Should(BeNumerically(">", 10))
		end()
		Eventually(done, patience.Eventually).Should(BeClosed())
		Expect(writes.Load()).To(BeZero())
		Expect(elector.IsLeader()).To(BeFalse())
	})

	It("should not be able to write, neither in the seed nor in the shoot", func() {
		Expect(deploy()).To(Succeed())
		role, deployment := &rbacv1.Role{}, &appsv1.Deployment{}
		Expect(get(own, role)).To(Succeed())
		Expect(get(own, deployment)).To(Succeed())
		Expect(deployment.Spec.Template.Spec.ServiceAccountName).To(Equal(own))
		shoot := fakeclient.NewClientBuilder().WithScheme(kubernetes.ShootScheme).Build()
		Expect(webhooks.Permit(ctx, shoot)).To(Succeed())
		Expect(webhooks.Permit(ctx, shoot)).To(Succeed(), "again")
		inShoot, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
		Expect(shoot.Get(ctx, client.ObjectKey{Name: own}, inShoot)).To(Succeed())
		Expect(shoot.Get(ctx, client.ObjectKey{Name: own}, binding)).To(Succeed())
		Expect(inShoot.Rules).NotTo(BeEmpty())
		for _, rule := range slices.Concat(role.Rules, inShoot.Rules) {
			Expect(rule.Verbs).To(HaveEach(BeElementOf("get", "list", "watch")))
			Expect(rule.Resources).NotTo(ContainElement("secrets"))
		}

		// Whom the certificate names is whom the rights are for, and in no group.
		secrets := &corev1.SecretList{}
		Expect(seed.List(ctx, secrets, client.MatchingLabels{"name": own})).To(Succeed())
		Expect(secrets.Items).To(HaveLen(1))
		config, err := clientcmd.RESTConfigFromKubeConfig(secrets.Items[0].Data["kubeconfig"])
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://kube-apiserver"))
		certificate, err := secretsutils.LoadCertificate("", config.KeyData, config.CertData)
		Expect(err).NotTo(HaveOccurred())
		Expect(certificate.Certificate.Subject.CommonName).To(Equal(binding.Subjects[0].Name))
		Expect(certificate.Certificate.Subject.Organization).To(BeEmpty())
		mounted := slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, func(volume corev1.Volume) bool {
			return volume.Secret != nil && volume.Secret.SecretName == secrets.Items[0].Name
		})
		Expect(mounted).To(BeTrue())

		Expect(webhooks.Revoke(ctx, shoot)).To(Succeed())
		Expect(webhooks.Revoke(ctx, shoot)).To(Succeed(), "again")
		Expect(apierrors.IsNotFound(shoot.Get(ctx, client.ObjectKey{Name: own}, inShoot))).To(BeTrue())
		Expect(apierrors.IsNotFound(shoot.Get(ctx, client.ObjectKey{Name: own}, binding))).To(BeTrue())
	})

	DescribeTable("starts nothing while somebody could get the Lease", func(holder string, seconds int32) {
		newSeed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: own, Namespace: namespace},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds}})
		Expect(deploy()).To(MatchError(ContainSubstring("failed to hold Lease shoot--demo--live/livecpm-webhooks")))
		Expect(apierrors.IsNotFound(get(own, &appsv1.Deployment{}))).To(BeTrue())
	},
		Entry("a pod has it", own+"-5d-x_uid", int32(15)),
		Entry("nobody has it", "", int32(1)),
		Entry("it runs out", ownership.WebhookServerHolder, int32(15)),
	)

	It("should leave alone what it shares with the resource manager, and change nothing when it is there", func() {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: regular, Namespace: namespace},
			Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}
		newSeed(service)
		Expect(deploy()).To(Succeed())
		Expect(get(regular, service)).To(Succeed())
		Expect(service.Spec.Ports).To(BeEmpty())
		before, after := &appsv1.Deployment{}, &appsv1.Deployment{}
		Expect(get(own, before)).To(Succeed())
		Expect(deploy()).To(Succeed())
		Expect(get(own, after)).To(Succeed())
		Expect(after.Spec).To(Equal(before.Spec), "nothing rolls")
		Expect(after.Labels).To(Equal(before.Labels))
	})

	It("should not be taken for old pods of the resource manager beside it", func() {
		deployment := rolledOut(regular, map[string]string{"app": regular})
		newSeed(deployment)
		Expect(deploy()).To(Succeed())
		server := &appsv1.Deployment{}
		Expect(get(own, server)).To(Succeed())
		for _, name := range []string{regular + "-1", regular + "-2", own + "-1", own + "-2"} {
			labels := deployment.Spec.Selector.MatchLabels
			if strings.HasPrefix(name, own) {
				labels = server.Spec.Template.Labels
			}
			Expect(seed.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
				Labels: labels}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})).To(Succeed())
		}
		updated, err := health.IsDeploymentUpdated(seed, deployment)(ctx)
		Expect(err).To(MatchError(ContainSubstring("there are still non-terminated old pods")),
			"Gardener's component takes them for these")
		Expect(updated).To(BeFalse())

		Expect(webhooks.WaitForRegular(ctx, seed, namespace)).To(Succeed())
	})

	DescribeTable("should not go before the resource manager beside it answers", func(spoil func(*appsv1.Deployment),
		expected string) {
		deployment := rolledOut(regular, map[string]string{"app": regular})
		spoil(deployment)
		newSeed(deployment)
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		Expect(webhooks.WaitForRegular(short, seed, namespace)).To(MatchError(ContainSubstring(expected)))
	},
		Entry("it is not there", func(d *appsv1.Deployment) { d.Name = "other" }, "failed to get Deployment"),
		Entry("its change has not been seen", func(d *appsv1.Deployment) { d.Generation = 3 },
			"observed generation outdated"),
		Entry("a pod is not ready", func(d *appsv1.Deployment) {
			d.Status.Conditions[0].Status = corev1.ConditionFalse
		}, "failed to roll out Deployment shoot--demo--live/gardener-resource-manager"),
		Entry("a former pod serves", func(d *appsv1.Deployment) {
			d.Status.Conditions[1].Reason = "ReplicaSetUpdated"
		}, "failed to roll out Deployment shoot--demo--live/gardener-resource-manager"),
	)

	It("should be waited for, and go", func() {
		server, err := webhooks.New(newBotanist(seed), testclock.NewFakePassiveClock(now))
		Expect(err).NotTo(HaveOccurred())
		Expect(server.Check(ctx)).To(MatchError(ContainSubstring("failed to get Deployment")))
		Expect(server.Deploy(ctx)).To(Succeed())
		Expect(server.Check(ctx)).To(MatchError(ContainSubstring("failed to roll out Deployment")))
		deployment := &appsv1.Deployment{}
		Expect(get(own, deployment)).To(Succeed())
		deployment.Status = rolledOut(own, nil).Status
		deployment.Status.ObservedGeneration = deployment.Generation
		Expect(seed.Status().Update(ctx, deployment)).To(Succeed())
		Expect(server.Check(ctx)).To(Succeed())

		Expect(webhooks.Remove(ctx, seed, namespace)).To(Succeed())
		Expect(webhooks.Remove(ctx, seed, namespace)).To(Succeed(), "again")
		for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}, &rbacv1.Role{},
			&rbacv1.RoleBinding{}, &corev1.ServiceAccount{}} {
			Expect(apierrors.IsNotFound(get(own, object))).To(BeTrue(), "%T", object)
		}
		Expect(get(regular, &corev1.Service{})).To(Succeed())
	})
})

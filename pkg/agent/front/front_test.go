// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	. "github.com/livecpm/livecpm/pkg/agent/front"
	"github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/patience"
)

// steering is what the test gets for a front.
type steering struct {
	joint.Front
	addresses  []string
	serverName string
	tls        *tls.Config
}

var _ = Describe("Fronts", func() {
	const protection = "druid.gardener.cloud/disable-etcd-component-protection"
	var (
		ctx   context.Context
		s     *seed
		clock *testclock.FakeClock
		m     *migration.Migration
		f     *Fronts
	)

	get := func(object client.Object) {
		GinkgoHelper()
		Expect(s.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	}
	etcd := func(etcdRole string) *druidcorev1alpha1.Etcd {
		GinkgoHelper()
		out := &druidcorev1alpha1.Etcd{ObjectMeta: meta("etcd-" + etcdRole)}
		get(out)
		return out
	}
	deployed := func() {
		GinkgoHelper()
		Expect(f.Deploy(ctx, m)).To(Succeed())
		s.runFronts(ctx)
	}
	leading := func() {
		GinkgoHelper()
		deployed()
		Expect(f.Lead(ctx, m)).To(Succeed())
	}
	// cut calls a function that waits for what does not come, until it has looked a few times.
	cut := func(fn func(context.Context, *migration.Migration) error) error {
		GinkgoHelper()
		short, expire := patience.Expiring(ctx)
		defer expire()
		result, before := make(chan error, 1), s.looks.Load()
		go func() { result <- fn(short, m) }()
		Eventually(func() bool { return s.looks.Load() > before+30 || len(result) > 0 }).Should(BeTrue())
		expire()
		return <-result
	}
	// leadBack lets the time pass for which the front continues.
	leadBack := func() error {
		GinkgoHelper()
		result := make(chan error, 1)
		go func() { result <- f.LeadBack(ctx, m) }()
		Eventually(func() bool { return clock.HasWaiters() || len(result) > 0 }).Should(BeTrue())
		clock.Step(SettleTime)
		return <-result
	}

	BeforeEach(func() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), patience.Eventually)
		DeferCleanup(cancel)
		s, clock = newSeed(ctx), testclock.NewFakeClock(now)
		m = &migration.Migration{
			Log: logr.Discard(), Clock: clock, Role: steps.Destination, SourceSeed: "seed-a", DestinationSeed: "seed-b",
			Shoot: &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"},
				Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}},
		}
		var err error
		f, err = New(Options{SeedClient: s, Image: "livecpm.local/livecpm-relay:1", PollInterval: time.Millisecond,
			PullSecrets: exposure.PullSecrets{{Namespace: "garden", Name: "registry"}},
			NewSteering: func(addresses []string, serverName string, config *tls.Config) joint.Front {
				return steering{addresses: addresses, serverName: serverName, tls: config}
			}})
		Expect(err).NotTo(HaveOccurred())
	})

	Describe("New", func() {
		It("should name what is missing", func() {
			_, err := New(Options{Image: "relay"})
			Expect(err).To(MatchError(
				"failed to set up the front of etcd: these options are missing: SeedClient, NewSteering"))
		})
	})

	Describe("#Deploy", func() {
		It("should run two hardened pods of each front with the relay's image", func() {
			Expect(f.Deploy(ctx, m)).To(Succeed())
			for _, etcdRole := range naming.EtcdRoles {
				deployment := &appsv1.Deployment{ObjectMeta: meta("livecpm-front-" + etcdRole)}
				get(deployment)
				Expect(deployment.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "livecpm"))
				Expect(deployment.Spec.Replicas).To(HaveValue(Equal(int32(2))))
				Expect(deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()).To(BeZero())
				Expect(deployment.Spec.Selector.MatchLabels).To(Equal(fronts(etcdRole)))
				Expect(deployment.Spec.Template.Labels).To(And(
					HaveKeyWithValue("networking.gardener.cloud/to-dns", "allowed"),
					Not(HaveKey("networking.gardener.cloud/to-public-networks"))))
				pod := deployment.Spec.Template.Spec
				Expect(pod.TerminationGracePeriodSeconds).To(HaveValue(Equal(int64(30))))
				Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
				Expect(pod.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
				Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
				Expect(pod.PriorityClassName).To(Equal("gardener-system-500"))
				Expect(pod.TopologySpreadConstraints).To(HaveLen(1))
				container := pod.Containers[0]
				Expect(container.Image).To(Equal("livecpm.local/livecpm-relay:1"))
				Expect(pod.ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{
					{Name: "livecpm-relay-pull-registry"}}), "the copies that the exposure makes")
				Expect(container.Args).To(Equal([]string{"front", "--config=/etc/livecpm-front/config/config.yaml"}))
				Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
				Expect(container.SecurityContext.AllowPrivilegeEscalation).To(HaveValue(BeFalse()))
				Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
				Expect(container.Resources.Limits).To(And(HaveKey(corev1.ResourceMemory),
					Not(HaveKey(corev1.ResourceCPU))))
				Expect(container.ReadinessProbe.HTTPGet.Port.IntValue()).To(Equal(8081))

				pdb := &policyv1.PodDisruptionBudget{ObjectMeta: meta("livecpm-front-" + etcdRole)}
				get(pdb)
				Expect(pdb.Spec.MaxUnavailable.IntValue()).To(Equal(1))
				Expect(pdb.Spec.Selector.MatchLabels).To(Equal(fronts(etcdRole)))
			}
		})

		It("should mount the secrets that the Etcd refers to", func() {
			Expect(f.Deploy(ctx, m)).To(Succeed())
			deployment := &appsv1.Deployment{ObjectMeta: meta("livecpm-front-events")}
			get(deployment)
			mounted := map[string]string{}
			for _, volume := range deployment.Spec.Template.Spec.Volumes {
				if volume.Secret != nil {
					mounted[volume.Name] = volume.Secret.SecretName
				}
			}
			Expect(mounted).To(Equal(map[string]string{"ca": "ca-etcd-bundle-1", "server": "etcd-server-events",
				"client": "etcd-client-1"}))
		})

		It("should configure the front with a way of its own to each member", func() {
			Expect(f.Deploy(ctx, m)).To(Succeed())
			configMap := &corev1.ConfigMap{ObjectMeta: meta("livecpm-front-main")}
			get(configMap)
			Expect(configMap.Data["config.yaml"]).To(MatchYAML(`
etcd: main
port: 2379
members:
- ordinal: 0
  address: livecpm-front-main-0.shoot--demo--live.svc.cluster.local.:2379
  serverName: etcd-main-0.etcd-main-peer.shoot--demo--live.svc
- ordinal: 1
  address: livecpm-front-main-1.shoot--demo--live.svc.cluster.local.:2379
  serverName: etcd-main-1.etcd-main-peer.shoot--demo--live.svc
- ordinal: 2
  address: livecpm-front-main-2.shoot--demo--live.svc.cluster.local.:2379
  serverName: etcd-main-2.etcd-main-peer.shoot--demo--live.svc
tls:
  caFile: /etc/livecpm-front/ca/bundle.crt
  serverCertFile: /etc/livecpm-front/server/tls.crt
  serverKeyFile: /etc/livecpm-front/server/tls.key
  clientCertFile: /etc/livecpm-front/client/tls.crt
  clientKeyFile: /etc/livecpm-front/client/tls.key
forwards:
- port: 8080
  memberPort: 8080
health: {port: 8081}
metrics: {port: 8082}
`))
			service := &corev1.Service{ObjectMeta: meta("livecpm-front-main-1")}
			get(service)
			expected := members("main")
			expected["statefulset.kubernetes.io/pod-name"] = "etcd-main-1"
			Expect(service.Spec.Selector).To(Equal(expected))
			Expect(service.Spec.PublishNotReadyAddresses).To(BeFalse())
			Expect(service.Spec.Ports).To(ConsistOf(
				HaveField("Port", Equal(int32(2379))), HaveField("Port", Equal(int32(8080)))))
		})

		It("should lead to the member of the source as well where each seed has one, by the relay, for requests only",
			func() {
				m.Shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
				Expect(f.Deploy(ctx, m)).To(Succeed())
				configMap := &corev1.ConfigMap{ObjectMeta: meta("livecpm-front-main")}
				get(configMap)
				cfg := &config.Config{}
				Expect(yaml.UnmarshalStrict([]byte(configMap.Data["config.yaml"]), cfg)).To(Succeed())
				config.SetDefaults(cfg)
				Expect(config.Validate(cfg)).To(BeEmpty())
				host := naming.MemberHost(namespace, "main", 0)
				Expect(cfg.Members).To(Equal([]config.Member{
					{Ordinal: 0, Address: "livecpm-front-main-0.shoot--demo--live.svc.cluster.local.:2379",
						ServerName: host},
					{Ordinal: naming.FrontOrdinalOfSource, ServerName: host, OnlyRequests: true,
						Address: "livecpm-relay.shoot--demo--live.svc.cluster.local.:22379"},
				}))
				Expect(cfg.Limits.MemberWait.Duration).To(Equal(45 * time.Second))
				service := &corev1.Service{ObjectMeta: meta("livecpm-front-main-0")}
				get(service)
				Expect(service.Spec.PublishNotReadyAddresses).To(BeTrue(), "it is no voter before requests go there")

				relay := map[string]string{"app": "livecpm-relay"}
				policy := &networkingv1.NetworkPolicy{ObjectMeta: meta("livecpm-front-main")}
				get(policy)
				Expect(policy.Spec.Egress).To(ContainElement(And(
					HaveField("To", ConsistOf(HaveField("PodSelector.MatchLabels", relay))),
					HaveField("Ports", ConsistOf(HaveField("Port.IntVal", BeEquivalentTo(22379)))))))
				policy = &networkingv1.NetworkPolicy{ObjectMeta: meta("livecpm-front-main-etcd")}
				get(policy)
				Expect(policy.Spec.Egress).To(ConsistOf(And(
					HaveField("To", ConsistOf(HaveField("PodSelector.MatchLabels", fronts("main")))),
					HaveField("Ports", ConsistOf(HaveField("Port.IntVal", BeEquivalentTo(2379)))))))
				policy = &networkingv1.NetworkPolicy{ObjectMeta: meta("livecpm-front-main-relay")}
				get(policy)
				Expect(policy.Spec.PodSelector.MatchLabels).To(Equal(relay))
				Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress,
					networkingv1.PolicyTypeEgress))
				Expect(policy.Spec.Ingress).To(ConsistOf(And(
					HaveField("From", ConsistOf(HaveField("PodSelector.MatchLabels", fronts("main")))),
					HaveField("Ports", ConsistOf(HaveField("Port.IntVal", BeEquivalentTo(22379)))))))
				Expect(apierrors.IsNotFound(s.Get(ctx, client.ObjectKey{Namespace: namespace,
					Name: "livecpm-front-main-1"}, &corev1.Service{}))).To(BeTrue())
			})

		It("should take a highly available shoot for what it is, whatever it permits", func() {
			m.Shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
			m.Shoot.Spec.ControlPlane = &gardencorev1beta1.ControlPlane{
				HighAvailability: &gardencorev1beta1.HighAvailability{}}
			Expect(f.Deploy(ctx, m)).To(Succeed())
			get(&corev1.Service{ObjectMeta: meta("livecpm-front-main-2")})
			policy := &networkingv1.NetworkPolicy{ObjectMeta: meta("livecpm-front-main-relay")}
			get(policy)
			Expect(policy.Spec.Ingress).To(BeEmpty())
		})

		It("should lead nobody to the front, and change nothing when it is repeated", func() {
			Expect(f.Deploy(ctx, m)).To(Succeed())
			deployment := &appsv1.Deployment{ObjectMeta: meta("livecpm-front-main")}
			get(deployment)
			Expect(f.Deploy(ctx, m)).To(Succeed())
			again := &appsv1.Deployment{ObjectMeta: meta("livecpm-front-main")}
			get(again)
			Expect(again.Spec).To(Equal(deployment.Spec))
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
			Expect(s.changed).To(BeZero())
		})

		DescribeTable("should refuse what it cannot serve with", func(change func(), message string) {
			change()
			Expect(f.Deploy(ctx, m)).To(MatchError(ContainSubstring(message)))
			deployments := &appsv1.DeploymentList{}
			Expect(s.List(ctx, deployments)).To(Succeed())
			for _, deployment := range deployments.Items {
				Expect(deployment.Name).NotTo(Equal("livecpm-front-main"))
			}
		},
			Entry("no Etcd", func() { Expect(s.Delete(ctx, etcd("main"))).To(Succeed()) },
				"failed to get Etcd shoot--demo--live/etcd-main"),
			Entry("no TLS", func() {
				e := etcd("main")
				e.Spec.Etcd.ClientUrlTLS = nil
				Expect(s.Update(ctx, e)).To(Succeed())
			}, "failed to find spec.etcd.clientUrlTls of Etcd"),
			Entry("no reference", func() {
				e := etcd("main")
				e.Spec.Etcd.ClientUrlTLS.ClientTLSSecretRef.Name = ""
				Expect(s.Update(ctx, e)).To(Succeed())
			}, "failed to find spec.etcd.clientUrlTls.clientTLSSecretRef of Etcd"),
			Entry("no secret", func() {
				Expect(s.Delete(ctx, &corev1.Secret{ObjectMeta: meta("etcd-server-main")})).To(Succeed())
			}, "failed to get the secret of spec.etcd.clientUrlTls.serverTLSSecretRef"),
			Entry("no data", func() {
				e := etcd("main")
				e.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.DataKey = nil
				Expect(s.Update(ctx, e)).To(Succeed())
			}, "has no data ca.crt"),
		)
	})

	Describe("#Wait", func() {
		It("should wait for the pods", func() {
			Expect(f.Deploy(ctx, m)).To(Succeed())
			Expect(cut(f.Wait)).To(MatchError(ContainSubstring("failed to wait until the pods are ready")))
			s.runFronts(ctx)
			Expect(f.Wait(ctx, m)).To(Succeed())
		})
	})

	Describe("#Lead", func() {
		It("should let the services select the fronts only, and protect them again", func() {
			leading()
			for _, etcdRole := range naming.EtcdRoles {
				Expect(s.selector(ctx, etcdRole)).To(Equal(fronts(etcdRole)))
				Expect(etcd(etcdRole).Annotations).NotTo(HaveKey(protection))
			}
			Expect(f.Lead(ctx, m)).To(Succeed())
			Expect(s.changed).To(Equal(2), "there was nothing to change")
		})

		It("should try again while the webhook does not know yet that it may", func() {
			deployed()
			s.denied = 3
			Expect(f.Lead(ctx, m)).To(Succeed())
			Expect(s.selector(ctx, "main")).To(Equal(fronts("main")))
		})

		It("should leave an annotation that others have set", func() {
			e := etcd("main")
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, protection, "true")
			Expect(s.Update(ctx, e)).To(Succeed())
			leading()
			Expect(etcd("main").Annotations).To(HaveKey(protection))
		})

		It("should not lead clients to nobody", func() {
			Expect(f.Deploy(ctx, m)).To(Succeed())
			Expect(f.Lead(ctx, m)).To(MatchError(ContainSubstring("no pod of Deployment shoot--demo--live/" +
				"livecpm-front-main is ready")))
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.changed).To(BeZero())
		})

		It("should wait until the EndpointSlices have followed", func() {
			deployed()
			s.frozen["etcd-events-client"] = true
			Expect(cut(f.Lead)).To(MatchError(And(ContainSubstring("front of etcd-events"),
				ContainSubstring("clients of etcd are led to the front"))))
		})

		It("should not lead to a front that does not exist", func() {
			Expect(f.Lead(ctx, m)).To(MatchError(ContainSubstring("is not there")))
		})
	})

	Describe("#Sync", func() {
		It("should do nothing where there is no front, and none before services exist", func() {
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.Delete(ctx, &corev1.Service{ObjectMeta: meta("etcd-main-client")})).To(Succeed())
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.changed).To(BeZero())
		})

		It("should read nothing but the services while they lead to the fronts", func() {
			leading()
			before := s.looks.Load()
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.looks.Load()-before).To(BeEquivalentTo(2), "one of each etcd")
		})

		It("should undo what etcd-druid does to the service", func() {
			leading()
			s.druidReconciles(ctx, "main")
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.selector(ctx, "main")).To(Equal(fronts("main")))
			Expect(s.changed).To(Equal(3))
		})

		It("should leave clients at the members while no pod of the front is ready", func() {
			leading()
			s.stopFronts(ctx)
			s.druidReconciles(ctx, "main")
			Expect(f.Sync(ctx, m)).To(Succeed(), "the members may have to come up before the front can")
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
			_, err := f.Open(ctx, m, "main")
			Expect(err).To(HaveOccurred())
		})

		It("should not fight with LeadBack", func() {
			leading()
			Expect(leadBack()).To(Succeed())
			Expect(f.Sync(ctx, m)).To(Succeed())
			for _, etcdRole := range naming.EtcdRoles {
				Expect(s.selector(ctx, etcdRole)).To(Equal(members(etcdRole)))
			}
			Expect(f.Lead(ctx, m)).To(MatchError(ContainSubstring("being withdrawn")))
		})
	})

	Describe("#Keep", func() {
		It("should keep the front before etcd while the work is done, and return what it returns", func() {
			leading()
			var passed atomic.Int32
			go func() {
				defer GinkgoRecover()
				for passed.Load() == 0 {
					clock.Step(time.Millisecond)
				}
			}()
			Expect(f.Keep(ctx, m, func(ctx context.Context) error {
				defer passed.Store(1)
				s.druidReconciles(ctx, "events")
				Eventually(func() map[string]string { return s.selector(ctx, "events") }).
					Should(Equal(fronts("events")))
				return errors.New("the work failed")
			})).To(MatchError("the work failed"))
		})
	})

	Describe("#LeadBack", func() {
		It("should let the services select the members as etcd-druid does", func() {
			leading()
			Expect(leadBack()).To(Succeed())
			for _, etcdRole := range naming.EtcdRoles {
				Expect(s.selector(ctx, etcdRole)).To(Equal(members(etcdRole)))
				Expect(etcd(etcdRole).Annotations).NotTo(HaveKey(protection))
			}
			changed := s.changed
			Expect(leadBack()).To(Succeed())
			Expect(s.changed).To(Equal(changed))
		})

		It("should try again while the webhook does not know yet that it may", func() {
			leading()
			s.denied = 3
			Expect(leadBack()).To(Succeed())
			for _, etcdRole := range naming.EtcdRoles {
				Expect(s.selector(ctx, etcdRole)).To(Equal(members(etcdRole)))
				Expect(etcd(etcdRole).Annotations).NotTo(HaveKey(protection))
			}
		})

		It("should give the kube-proxies time to follow", func() {
			leading()
			result := make(chan error, 1)
			go func() { result <- f.LeadBack(ctx, m) }()
			Eventually(clock.HasWaiters).Should(BeTrue())
			clock.Step(SettleTime - time.Millisecond)
			Expect(clock.HasWaiters()).To(BeTrue(), "it still waits")
			clock.Step(time.Millisecond)
			Eventually(result).Should(Receive(BeNil()))
		})

		It("should not end while an EndpointSlice names a pod that is not ready", func() {
			leading()
			pod := &corev1.Pod{ObjectMeta: meta("etcd-main-1")}
			get(pod)
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			Expect(s.Status().Update(ctx, pod)).To(Succeed())
			Expect(cut(f.LeadBack)).To(MatchError(ContainSubstring(`has pod "etcd-main-1", which is not ready`)))
		})

		It("should find a front that leads again in the end", func() {
			leading()
			result := make(chan error, 1)
			go func() { result <- f.LeadBack(ctx, m) }()
			Eventually(clock.HasWaiters).Should(BeTrue())
			service := &corev1.Service{ObjectMeta: meta("etcd-main-client")}
			get(service)
			service.Spec.Selector = fronts("main")
			Expect(s.Update(ctx, service)).To(Succeed())
			clock.Step(SettleTime)
			Eventually(result).Should(Receive(MatchError(ContainSubstring("still leads to the front"))))
			s.stopFronts(ctx)
			Expect(f.Remove(ctx, m)).To(MatchError(ContainSubstring("still leads to the front")))
			Expect(leadBack()).To(Succeed())
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
		})

		It("should lead back from a front that somebody has deleted", func() {
			leading()
			Expect(s.Delete(ctx, &appsv1.Deployment{ObjectMeta: meta("livecpm-front-main")})).To(Succeed())
			Expect(leadBack()).To(Succeed())
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
		})

		It("should remove an annotation that an attempt has left, but for one that belongs to a suspension", func() {
			leading()
			for _, etcdRole := range naming.EtcdRoles {
				e := etcd(etcdRole)
				metav1.SetMetaDataAnnotation(&e.ObjectMeta, protection, "true")
				if etcdRole == "events" {
					metav1.SetMetaDataAnnotation(&e.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile",
						"true")
				}
				Expect(s.Update(ctx, e)).To(Succeed())
			}
			Expect(leadBack()).To(Succeed())
			Expect(etcd("main").Annotations).NotTo(HaveKey(protection))
			Expect(etcd("events").Annotations).To(HaveKey(protection))
		})

		It("should take no time where nothing was", func() {
			Expect(f.LeadBack(ctx, m)).To(Succeed())
			Expect(s.changed).To(BeZero())
		})
	})

	Describe("#Remove", func() {
		policies := func() []string {
			GinkgoHelper()
			list, out := &networkingv1.NetworkPolicyList{}, []string{}
			Expect(s.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/part-of": "livecpm"})).To(Succeed())
			for _, policy := range list.Items {
				out = append(out, policy.Name)
			}
			return out
		}

		It("should refuse to remove a front to which clients are led", func() {
			leading()
			Expect(f.Remove(ctx, m)).To(MatchError(ContainSubstring("still leads to the front")))
			get(&appsv1.Deployment{ObjectMeta: meta("livecpm-front-main")})
		})

		It("should leave nothing, and find nothing to do then", func() {
			leading()
			Expect(leadBack()).To(Succeed())
			s.stopFronts(ctx)
			Expect(f.Remove(ctx, m)).To(Succeed())
			for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ConfigMapList{},
				&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}} {
				Expect(s.List(ctx, list)).To(Succeed())
				Expect(list).To(HaveField("Items", BeEmpty()))
			}
			services := &corev1.ServiceList{}
			Expect(s.List(ctx, services)).To(Succeed())
			Expect(services.Items).To(HaveLen(2), "those of etcd-druid")
			Expect(f.LeadBack(ctx, m)).To(Succeed())
			Expect(f.Remove(ctx, m)).To(Succeed())
		})

		It("should leave services and policies to pods that end", func() {
			leading()
			Expect(leadBack()).To(Succeed())
			Expect(cut(f.Remove)).To(MatchError(ContainSubstring("2 pods of the front are still there")))
			Expect(policies()).To(HaveLen(10))
			get(&corev1.Service{ObjectMeta: meta("livecpm-front-main-0")})
			Expect(apierrors.IsNotFound(s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "livecpm-front-main"},
				&appsv1.Deployment{}))).To(BeTrue())
			Expect(f.Sync(ctx, m)).To(Succeed())
			Expect(s.selector(ctx, "main")).To(Equal(members("main")))
		})

		It("should leave the policies until those of Gardener have followed", func() {
			leading()
			derived := &networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ingress-to-etcd-main-client-tcp-2379",
					Labels: map[string]string{"networking.resources.gardener.cloud/service-name": "etcd-main-client",
						"networking.resources.gardener.cloud/service-namespace": namespace}},
				Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: fronts("main")}},
			}
			Expect(s.Create(ctx, derived)).To(Succeed())
			Expect(leadBack()).To(Succeed())
			s.stopFronts(ctx)
			Expect(cut(f.Remove)).To(MatchError(ContainSubstring("NetworkPolicy shoot--demo--live/" +
				"ingress-to-etcd-main-client-tcp-2379 is still about the pods of the front")))
			Expect(policies()).To(ContainElements("livecpm-front-main", "livecpm-front-main-etcd",
				"livecpm-front-main-clients"))
			derived.Spec.PodSelector.MatchLabels = members("main")
			Expect(s.Update(ctx, derived)).To(Succeed())
			Expect(f.Remove(ctx, m)).To(Succeed())
			Expect(policies()).To(BeEmpty())
		})
	})

	Describe("#Open", func() {
		It("should steer all pods of the front", func() {
			leading()
			front, err := f.Open(ctx, m, "events")
			Expect(err).NotTo(HaveOccurred())
			Expect(front).To(BeAssignableToTypeOf(steering{}))
			Expect(front.(steering).addresses).To(ConsistOf("10.2.1.0:2379", "10.2.1.1:2379"))
			Expect(front.(steering).serverName).To(Equal("etcd-events-client.shoot--demo--live.svc"))
			Expect(front.(steering).tls.Certificates).To(HaveLen(1))
			Expect(front.(steering).tls.RootCAs).NotTo(BeNil())
		})

		It("should return nothing where clients are not led to a front", func() {
			Expect(f.Open(ctx, m, "main")).To(BeNil())
			deployed()
			Expect(f.Open(ctx, m, "main")).To(BeNil())
			Expect(f.Lead(ctx, m)).To(Succeed())
			Expect(leadBack()).To(Succeed())
			Expect(f.Open(ctx, m, "main")).To(BeNil())
		})

		It("should lead clients to the front before it is steered", func() {
			leading()
			s.druidReconciles(ctx, "main")
			front, err := f.Open(ctx, m, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(front).NotTo(BeNil())
			Expect(s.selector(ctx, "main")).To(Equal(fronts("main")))
		})

		DescribeTable("should refuse to steer some of the pods", func(mutate func(*corev1.Pod), message string) {
			leading()
			pod := readyPod("livecpm-front-main-x", "10.2.0.9", fronts("main"))
			mutate(pod)
			Expect(s.Create(ctx, pod)).To(Succeed())
			_, err := f.Open(ctx, m, "main")
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
			Entry("one that is not ready", func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Status = corev1.ConditionFalse
			}, "pod livecpm-front-main-x of the front is not ready"),
			Entry("one without conditions", func(pod *corev1.Pod) { pod.Status.Conditions = nil }, "is not ready"),
			Entry("one without an address", func(pod *corev1.Pod) { pod.Status.PodIP = "" }, "is not ready"),
		)

		It("should steer a pod that ends, but not one whose node has forgotten it", func() {
			leading()
			pod := readyPod("livecpm-front-main-x", "10.2.0.9", fronts("main"))
			pod.Finalizers = []string{"test/stays"}
			Expect(s.Create(ctx, pod)).To(Succeed())
			Expect(s.Delete(ctx, pod)).To(Succeed())
			get(pod)
			clock.SetTime(pod.DeletionTimestamp.Add(-time.Second))
			front, err := f.Open(ctx, m, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(front.(steering).addresses).To(ConsistOf("10.2.0.0:2379", "10.2.0.1:2379", "10.2.0.9:2379"))
			clock.SetTime(pod.DeletionTimestamp.Add(time.Second))
			front, err = f.Open(ctx, m, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(front.(steering).addresses).To(HaveLen(2))
		})

		It("should pass over pods that have ended, and miss a front without any", func() {
			leading()
			pod := readyPod("livecpm-front-main-x", "10.2.0.9", fronts("main"))
			pod.Status.Phase = corev1.PodFailed
			Expect(s.Create(ctx, pod)).To(Succeed())
			front, err := f.Open(ctx, m, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(front.(steering).addresses).To(HaveLen(2))
			s.stopFronts(ctx)
			_, err = f.Open(ctx, m, "main")
			Expect(err).To(MatchError(ContainSubstring("the front has no pod")))
		})
	})
})

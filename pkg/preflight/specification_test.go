// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"
	"encoding/json"
	"errors"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// rolledOut returns the Shoot as its gardenlet has rolled it out if nothing of its specification is pending.
func rolledOut(_ context.Context, shoot *gardencorev1beta1.Shoot) (*gardencorev1beta1.Shoot, error) {
	running := shoot.DeepCopy()
	running.Spec.SeedName = shoot.Status.SeedName
	running.Generation = shoot.Status.ObservedGeneration
	return running, nil
}

// fitAndRunning returns a world in which every check passes, with a specification that has much in it. The Shoot has
// spec.maintenance.confineSpecUpdateRollout: no change of the specification counts as a new generation.
func fitAndRunning() preflight.Facts {
	w := fit()
	w.Shoot.UID = "1"
	w.Shoot.Generation, w.Shoot.Status.ObservedGeneration = 8, 7
	w.Shoot.Spec.Maintenance = &gardencorev1beta1.Maintenance{ConfineSpecUpdateRollout: new(true)}
	w.Shoot.Spec.Kubernetes = gardencorev1beta1.Kubernetes{
		Version: "1.33.0",
		KubeAPIServer: &gardencorev1beta1.KubeAPIServerConfig{
			KubernetesConfig: gardencorev1beta1.KubernetesConfig{FeatureGates: map[string]bool{"A": true}},
			AdmissionPlugins: []gardencorev1beta1.AdmissionPlugin{{Name: "PodNodeSelector",
				Config: &runtime.RawExtension{Raw: []byte(`{"b": 1, "a": [1.0, null]}`)}}},
			EncryptionConfig: &gardencorev1beta1.EncryptionConfig{
				Resources: []string{"configmaps", "things.example.com"}},
		},
	}
	w.Shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{
		EncryptionAtRest: &gardencorev1beta1.EncryptionAtRest{Resources: []string{"things.example.com", "configmaps."}},
	}
	w.Shoot.Spec.Provider.ControlPlaneConfig = &runtime.RawExtension{Raw: []byte(`{"kind":"X","n":10,"gone":null}`)}
	w.RunningRead = true
	w.Running, _ = rolledOut(context.Background(), w.Shoot)
	// A Cluster has been through JSON, and its provider configurations have been formatted anew.
	raw, err := json.Marshal(w.Running)
	Expect(err).NotTo(HaveOccurred())
	w.Running = &gardencorev1beta1.Shoot{}
	Expect(json.Unmarshal(raw, w.Running)).To(Succeed())
	w.Running.Spec.Provider.ControlPlaneConfig.Raw = []byte(`{ "n": 10, "kind": "X" }`)
	w.Running.Spec.Kubernetes.KubeAPIServer.AdmissionPlugins[0].Config.Raw = []byte(`{"a":[1,null],"b":1}`)
	return w
}

var _ = Describe("A specification", func() {
	everyCheck := []preflight.Name{preflight.SpecReconciled, preflight.EncryptionConfig, preflight.KubernetesVersion,
		preflight.FeatureGates, preflight.AdmissionPlugins, preflight.ServiceAccountIssuer,
		preflight.KubeAPIServerConfig}

	It("should pass if it is what runs, however that is written", func() {
		findings := preflight.Evaluate(fitAndRunning())
		Expect(preflight.Sentences(findings)).To(BeEmpty())
		for _, name := range everyCheck {
			Expect(find(findings, name).Status).To(Equal(preflight.Pass), string(name))
		}
	})

	DescribeTable("holds if it is not rolled out, with and without workers",
		func(name preflight.Name, evidence string, change func(*gardencorev1beta1.Shoot)) {
			for _, workers := range []bool{false, true} {
				w := fitAndRunning()
				if workers {
					w.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}}
					w.Running.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}}
				}
				change(w.Shoot)
				findings := preflight.Evaluate(w)
				finding := find(findings, name)
				Expect(finding.Status).To(Equal(preflight.Fail))
				Expect(finding.Evidence).To(ContainSubstring(evidence))
				Expect(finding.Remedy).To(ContainSubstring("abort --stay"))
				Expect(finding.Reason).To(Equal(steps.ReasonShootNotReconciled))
				for _, other := range everyCheck {
					if other != name {
						Expect(find(findings, other).Status).To(Equal(preflight.Pass), string(other))
					}
				}
			}
		},
		Entry("encrypted resources", preflight.EncryptionConfig,
			"spec.kubernetes.kubeAPIServer.encryptionConfig.resources", func(s *gardencorev1beta1.Shoot) {
				config := s.Spec.Kubernetes.KubeAPIServer.EncryptionConfig
				config.Resources = append(config.Resources, "deployments.apps")
			}),
		Entry("no encryption any more", preflight.EncryptionConfig,
			"spec.kubernetes.kubeAPIServer.encryptionConfig; the kube-apiservers", func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.KubeAPIServer.EncryptionConfig = nil
			}),
		Entry("encryption that is rolled out, but has not reached all data", preflight.EncryptionConfig,
			"asks for [configmaps, things.example.com], but what is encrypted by the Shoot's status is [configmaps]",
			func(s *gardencorev1beta1.Shoot) {
				s.Status.Credentials.EncryptionAtRest.Resources = []string{"configmaps"}
			}),
		Entry("version of Kubernetes", preflight.KubernetesVersion,
			"spec.kubernetes.version is 1.34.0, and 1.33.0 runs", func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.Version = "1.34.0"
			}),
		Entry("feature gates", preflight.FeatureGates, "spec.kubernetes.kubeAPIServer.featureGates.A",
			func(s *gardencorev1beta1.Shoot) { s.Spec.Kubernetes.KubeAPIServer.FeatureGates["A"] = false }),
		Entry("APIs", preflight.FeatureGates, "spec.kubernetes.kubeAPIServer.runtimeConfig",
			func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.KubeAPIServer.RuntimeConfig = map[string]bool{"x/v1alpha1": true}
			}),
		Entry("configuration of an admission plugin", preflight.AdmissionPlugins,
			"spec.kubernetes.kubeAPIServer.admissionPlugins[0].config.b", func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.KubeAPIServer.AdmissionPlugins[0].Config.Raw = []byte(`{"b":2,"a":[1,null]}`)
			}),
		Entry("another admission plugin", preflight.AdmissionPlugins,
			"spec.kubernetes.kubeAPIServer.admissionPlugins; the", func(s *gardencorev1beta1.Shoot) {
				config := s.Spec.Kubernetes.KubeAPIServer
				config.AdmissionPlugins = append(config.AdmissionPlugins, gardencorev1beta1.AdmissionPlugin{Name: "B"})
			}),
		Entry("issuer", preflight.ServiceAccountIssuer, "spec.kubernetes.kubeAPIServer.serviceAccountConfig",
			func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.KubeAPIServer.ServiceAccountConfig = &gardencorev1beta1.ServiceAccountConfig{
					Issuer: new("https://issuer.example.com"),
				}
			}),
		Entry("issuer managed by Gardener", preflight.ServiceAccountIssuer,
			"metadata.annotations.authentication.gardener.cloud/issuer", func(s *gardencorev1beta1.Shoot) {
				s.Annotations["authentication.gardener.cloud/issuer"] = "managed"
			}),
		Entry("audiences", preflight.ServiceAccountIssuer, "spec.kubernetes.kubeAPIServer.apiAudiences",
			func(s *gardencorev1beta1.Shoot) { s.Spec.Kubernetes.KubeAPIServer.APIAudiences = []string{"x"} }),
		Entry("audit policy", preflight.KubeAPIServerConfig, "spec.kubernetes.kubeAPIServer.auditConfig",
			func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.KubeAPIServer.AuditConfig = &gardencorev1beta1.AuditConfig{
					AuditPolicy: &gardencorev1beta1.AuditPolicy{},
				}
			}),
		Entry("anything else", preflight.SpecReconciled, "not rolled out yet: spec.purpose",
			func(s *gardencorev1beta1.Shoot) { s.Spec.Purpose = new(gardencorev1beta1.ShootPurposeProduction) }),
		Entry("feature gates of another component", preflight.SpecReconciled,
			"spec.kubernetes.kubeControllerManager", func(s *gardencorev1beta1.Shoot) {
				s.Spec.Kubernetes.KubeControllerManager = &gardencorev1beta1.KubeControllerManagerConfig{
					KubernetesConfig: gardencorev1beta1.KubernetesConfig{FeatureGates: map[string]bool{"A": true}},
				}
			}),
		Entry("configuration of the provider", preflight.SpecReconciled,
			"spec.provider.controlPlaneConfig.n", func(s *gardencorev1beta1.Shoot) {
				s.Spec.Provider.ControlPlaneConfig.Raw = []byte(`{"kind":"X","n":11}`)
			}),
		Entry("more than a message can take", preflight.SpecReconciled, ", and 1 more",
			func(s *gardencorev1beta1.Shoot) {
				s.Spec.Provider.ControlPlaneConfig.Raw = []byte(`{"kind":"Y","n":1,"a":1,"b":1,"c":1,"d":1}`)
			}),
	)

	It("should have a word about each kind that differs", func() {
		w := fitAndRunning()
		w.Shoot.Spec.Kubernetes.Version = "1.34.0"
		w.Shoot.Spec.Kubernetes.KubeAPIServer.FeatureGates["A"] = false
		w.Shoot.Spec.Purpose = new(gardencorev1beta1.ShootPurposeProduction)
		reason, message := preflight.Verdict(preflight.Evaluate(w))
		Expect(reason).To(Equal(steps.ReasonShootNotReconciled))
		Expect(message).To(And(ContainSubstring("KubernetesVersion is Fail"), ContainSubstring("FeatureGates is Fail"),
			ContainSubstring("SpecReconciled is Fail")))
	})

	It("should not write values of providers into a condition", func() {
		w := fitAndRunning()
		w.Shoot.Spec.Provider.ControlPlaneConfig.Raw = []byte(`{"kind":"X","n":10,"token":"do-not-show"}`)
		_, message := preflight.Verdict(preflight.Evaluate(w))
		Expect(message).To(And(ContainSubstring("spec.provider.controlPlaneConfig.token"),
			Not(ContainSubstring("do-not-show"))))
	})

	DescribeTable("holds if it is not known what runs", func(evidence string, change func(*preflight.Facts)) {
		w := fitAndRunning()
		change(&w)
		findings := preflight.Evaluate(w)
		Expect(find(findings, preflight.SpecReconciled)).To(And(HaveField("Status", preflight.Unknown),
			HaveField("Evidence", ContainSubstring(evidence)), HaveField("Remedy", Not(BeEmpty()))))
		reason, _ := preflight.Verdict(findings)
		Expect(reason).To(Equal(steps.ReasonPrerequisitesUnknown))
	},
		Entry("because it cannot be read", "in seed seed-a, which tells what runs, could not be read: forbidden",
			func(w *preflight.Facts) { w.Running, w.RunningError = nil, errors.New("forbidden") }),
		Entry("because nothing is written there", "has no Shoot", func(w *preflight.Facts) { w.Running = nil }),
		Entry("because it is of an earlier shoot", "another shoot", func(w *preflight.Facts) {
			w.Running.UID = types.UID("2")
		}),
		Entry("because its gardenlet ignores it", "ignores the shoot (annotation shoot.gardener.cloud/ignore)",
			func(w *preflight.Facts) {
				w.Shoot.Annotations["shoot.gardener.cloud/ignore"] = "true"
				w.Gardenlet.Controllers = &gardenletconfigv1alpha1.GardenletControllerConfiguration{
					Shoot: &gardenletconfigv1alpha1.ShootControllerConfiguration{RespectSyncPeriodOverwrite: new(true)},
				}
			}),
		Entry("because its gardenlet has written what it found at the end of an operation",
			"has generation 8 of the Shoot, but generation 7 was rolled out last",
			func(w *preflight.Facts) { w.Running.Generation = 8 }),
	)

	It("should mind that a shoot is ignored only where its gardenlet does so", func() {
		w := fitAndRunning()
		w.Shoot.Annotations["shoot.gardener.cloud/ignore"] = "true"
		w.Gardenlet.Controllers = &gardenletconfigv1alpha1.GardenletControllerConfiguration{
			Shoot: &gardenletconfigv1alpha1.ShootControllerConfiguration{},
		}
		Expect(preflight.Sentences(preflight.Evaluate(w))).To(BeEmpty())
	})

	It("should be compared by the source only, before it begins", func() {
		w := fitAndRunning()
		w.Shoot.Spec.Kubernetes.Version = "1.34.0"
		w.OwnSeed = "seed-b"
		for _, finding := range preflight.Evaluate(w) {
			Expect(finding.Name).NotTo(BeElementOf(everyCheck))
		}
	})

	It("should count generations where nobody sees the seed", func() {
		w := fitAndRunning()
		w.RunningRead, w.Running = false, nil
		Expect(find(preflight.Evaluate(w), preflight.SpecReconciled).Status).To(Equal(preflight.Pass))
		w.Shoot.Generation++
		Expect(find(preflight.Evaluate(w), preflight.SpecReconciled).Evidence).To(ContainSubstring("changed 2 times"))
	})
})

var _ = Describe("TLS of clients", func() {
	tls := func(change func(*preflight.Facts)) preflight.Finding {
		GinkgoHelper()
		w := fitWithWorkers()
		change(&w)
		return find(preflight.Evaluate(w), preflight.TLSTermination)
	}
	inDestination := func(w *preflight.Facts, value string) {
		w.Destination.Seed.Annotations[seedfacts.AnnotationTLSTermination] = value
	}
	disable := func(w *preflight.Facts) {
		w.Shoot.Annotations["shoot.gardener.cloud/disable-istio-tls-termination"] = "true"
	}

	DescribeTable("may end at the same place in both seeds", func(change func(*preflight.Facts)) {
		Expect(tls(change).Status).To(Equal(preflight.Pass))
	},
		Entry("at the gateways", func(*preflight.Facts) {}),
		Entry("at the kube-apiservers", func(w *preflight.Facts) {
			w.TLSEndsAtGateway = false
			inDestination(w, "false")
		}),
		Entry("at the kube-apiservers because the shoot wants it, whatever the destination has",
			func(w *preflight.Facts) {
				w.TLSEndsAtGateway = false
				disable(w)
			}),
		Entry("by what both agents have published", func(w *preflight.Facts) {
			w.TLSEndsRead, w.TLSEndsAtGateway = false, false
			w.Source.Seed.Annotations[seedfacts.AnnotationTLSTermination] = "true"
		}),
	)

	DescribeTable("holds a migration to where it ends elsewhere", func(evidence string, change func(*preflight.Facts)) {
		finding := tls(change)
		Expect(finding.Status).To(Equal(preflight.Fail))
		Expect(finding.Evidence).To(Equal(evidence))
		Expect(finding.Remedy).To(And(ContainSubstring("IstioTLSTermination"),
			ContainSubstring("shoot.gardener.cloud/disable-istio-tls-termination=true")))
		Expect(finding.Reason).To(Equal(steps.ReasonTLSTerminationDiffers))
	},
		Entry("at the gateway of the source only",
			"clients' TLS ends at the ingress gateway in seed seed-a, and at the kube-apiserver in seed seed-b",
			func(w *preflight.Facts) { inDestination(w, "false") }),
		Entry("at the gateway of the destination only",
			"clients' TLS ends at the kube-apiserver in seed seed-a, and at the ingress gateway in seed seed-b",
			func(w *preflight.Facts) { w.TLSEndsAtGateway = false }),
		Entry("where the shoot's wish is not rolled out in the source",
			"clients' TLS ends at the ingress gateway in seed seed-a, and at the kube-apiserver in seed seed-b",
			disable),
	)

	DescribeTable("holds if it is not known where it ends", func(evidence string, change func(*preflight.Facts)) {
		finding := tls(change)
		Expect(finding.Status).To(Equal(preflight.Unknown))
		Expect(finding.Evidence).To(ContainSubstring(evidence))
		Expect(finding.Remedy).NotTo(BeEmpty())
	},
		Entry("in the source", "where clients' TLS ends in seed seed-a: forbidden",
			func(w *preflight.Facts) { w.TLSEndsError = errors.New("forbidden") }),
		Entry("in a destination whose agent has not said so", "the agent of seed seed-b has not published",
			func(w *preflight.Facts) { w.Destination.Seed.Annotations = nil }),
		Entry("in a destination whose agent says something else", `is "perhaps"`,
			func(w *preflight.Facts) { inDestination(w, "perhaps") }),
		Entry("in a destination that cannot be read", "seed seed-b could not be read: gone", func(w *preflight.Facts) {
			w.Destination = preflight.SeedView{Name: "seed-b", Error: errors.New("gone")}
		}),
	)

	It("should not matter to shoots without workers, whose clients all come from outside", func() {
		w := fit()
		for _, finding := range preflight.Evaluate(w) {
			Expect(finding.Name).NotTo(Equal(preflight.TLSTermination))
		}
	})
})

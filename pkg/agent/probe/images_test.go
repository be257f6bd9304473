// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	imagevectorutils "github.com/gardener/gardener/pkg/utils/imagevector"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
)

// vector is an image vector in which versions of the shoot and of the seed decide.
var vector = imagevectorutils.ImageVector{
	ofVector("kube-apiserver", "", ">= 1.33", ""),
	ofVector("kube-apiserver", "", "< 1.33", "old"),
	ofVector("kube-controller-manager", "", "", ""),
	ofVector("kube-scheduler", ">= 1.34", "", "v1.34.0"),
	ofVector("kube-scheduler", "< 1.34", "", "old"),
	{Name: "gardener-resource-manager", Repository: new("registry.example/gardener-resource-manager")},
	ofVector("machine-controller-manager", "", "", "v0.62.1"),
	ofVector("vpn-server", "", "", "0.50.0"),
	ofVector("vpn-client", "", "", "0.50.0"),
	ofVector("envoy-proxy", "", "", "v1.38.0"),
}

// ofVector is an image of a vector. One without a tag has that of the shoot's Kubernetes.
func ofVector(name, runtime, target, tag string) *imagevectorutils.ImageSource {
	out := &imagevectorutils.ImageSource{Name: name, Repository: new("registry.example/" + name)}
	if runtime != "" {
		out.RuntimeVersion = &runtime
	}
	if target != "" {
		out.TargetVersion = &target
	}
	if tag != "" {
		out.Tag = &tag
	}
	return out
}

var _ = Describe("The images of a control plane", func() {
	var w *world
	BeforeEach(func() {
		w = newWorld()
		w.controlPlanes = []seedfacts.ControlPlane{{Kubernetes: "1.34.3"}}
		w.needs = []seedfacts.Need{need("etcd-main", 3, "500m/1Gi", corev1.LabelTopologyZone),
			need("kube-apiserver", 2, "1/2Gi"), need("other", 1, "1/1Gi")}
	})
	look := func() seedfacts.ProbeResult {
		GinkgoHelper()
		w.ask()
		w.look()
		Expect(w.namespaces()).To(BeEmpty(), "nothing is left")
		return *w.connection().Result
	}
	// pulls are the images that the pods of the StatefulSet pull.
	pulls := func(name string) []string {
		GinkgoHelper()
		var out []string
		for _, container := range created[*appsv1.StatefulSet](w, name).Spec.Template.Spec.Containers {
			out = append(out, strings.TrimPrefix(container.Image, "registry.example/"))
		}
		return out
	}

	It("should be pulled by the pods that look for room, without doing anything else", func() {
		result := look()
		Expect(result.InOrder()).To(BeTrue())
		Expect(result.Images).To(HaveExactElements("registry.example/etcd-wrapper:v0.8.1",
			"registry.example/etcdbrctl:v0.44.1", "registry.example/gardener-resource-manager:v1.150.0",
			"registry.example/kube-apiserver:v1.34.3", "registry.example/kube-controller-manager:v1.34.3"))

		Expect(pulls("room-etcd-main")).To(HaveExactElements("etcd-wrapper:v0.8.1", "etcdbrctl:v0.44.1"))
		Expect(pulls("room-kube-apiserver")).To(HaveExactElements("kube-apiserver:v1.34.3"))
		Expect(pulls("room-other")).To(HaveExactElements("livecpm-relay:1"), "nothing is pulled there")
		Expect(pulls("room-images")).To(HaveExactElements("kube-controller-manager:v1.34.3",
			"gardener-resource-manager:v1.150.0"), "what is left out as small")

		spec := created[*appsv1.StatefulSet](w, "room-etcd-main").Spec.Template.Spec
		Expect(spec.Containers[0].Resources.Requests.Cpu().String()).To(Equal("500m"))
		Expect(spec.Containers[1].Resources.Requests).To(BeEmpty())
		Expect(spec.TopologySpreadConstraints).To(HaveLen(1))
		Expect(spec.Volumes).To(BeEmpty())
		Expect(*spec.AutomountServiceAccountToken).To(BeFalse())
		Expect(*spec.SecurityContext.RunAsNonRoot).To(BeTrue())
		for _, container := range spec.Containers {
			Expect(container.Command).To(Equal([]string{"/livecpm-only-pulls-this-image"}))
			Expect(container.ImagePullPolicy).To(Equal(corev1.PullIfNotPresent))
			Expect(*container.SecurityContext.AllowPrivilegeEscalation).To(BeFalse())
			Expect(container.SecurityContext.Capabilities.Drop).To(Equal([]corev1.Capability{"ALL"}))
			Expect(container.VolumeMounts).To(BeEmpty())
			Expect(container.Ports).To(BeEmpty())
		}

		etcd := created[*druidcorev1alpha1.Etcd](w, "livecpm-images")
		Expect(etcd.Spec.Replicas).To(BeZero(), "no member of it runs")
		Expect(etcd.Spec.Backup.Store).To(BeNil())
	})

	It("should be those of the versions of the shoots and of the seed, and of what the shoots have", func() {
		w.controlPlanes = []seedfacts.ControlPlane{{Kubernetes: "1.32.9", Workers: true},
			{Kubernetes: "1.34.3", Workers: true, HighlyAvailableVPN: true}}
		w.needs = nil
		Expect(look().InOrder()).To(BeTrue())
		Expect(pulls("room-images")).To(HaveExactElements("kube-apiserver:old", "kube-controller-manager:v1.32.9",
			"kube-scheduler:v1.34.0", "gardener-resource-manager:v1.150.0", "machine-controller-manager:v0.62.1",
			"vpn-server:0.50.0", "envoy-proxy:v1.38.0", "kube-apiserver:v1.34.3", "vpn-client:0.50.0",
			"kube-controller-manager:v1.34.3", "etcd-wrapper:v0.8.1", "etcdbrctl:v0.44.1"))
	})

	It("should not be pulled for agents that do not ask for them", func() {
		w.controlPlanes = nil
		result := look()
		Expect(result.InOrder()).To(BeTrue())
		Expect(result.Images).To(BeEmpty())
		Expect(pulls("room-etcd-main")).To(HaveExactElements("livecpm-relay:1"))
	})

	It("should have been pulled when the containers have failed to start, whenever the runtime notices", func() {
		states := map[string]corev1.ContainerStatus{
			"kube-apiserver": {State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError"}}},
			"kube-controller-manager": {State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "RunContainerError"}}},
			"gardener-resource-manager": {State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			"etcd": {State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError"}}},
			"backup-restore": {LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 128}}},
		}
		w.pull = func(container corev1.Container, _ int32) corev1.ContainerStatus {
			_, name, _ := strings.Cut(strings.TrimPrefix(container.Name, "pull-"), "-")
			status := states[name]
			status.Name = container.Name
			return status
		}
		Expect(look().InOrder()).To(BeTrue())
	})

	DescribeTable("should be said to be out of reach, with the node and what the kubelet says", func(
		reason, message, said string,
	) {
		w.pull = func(container corev1.Container, ordinal int32) corev1.ContainerStatus {
			if strings.Contains(container.Image, "etcdbrctl") && ordinal == 1 {
				return corev1.ContainerStatus{Name: container.Name, Image: container.Image,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason,
						Message: message}}}
			}
			return corev1.ContainerStatus{Name: container.Name, ImageID: "sha256:1"}
		}
		result := look()
		Expect(result.Images).To(BeEmpty())
		Expect(result.Measured()).To(BeFalse(), "nothing is measured while a node may still be pulling")
		Expect(result.Problems).To(HaveExactElements(
			ContainSubstring("9 of 10 times, a node has an image of the control plane that a pod there would need"),
			"node node cannot pull image registry.example/etcdbrctl:v0.44.1 of backup-restore: "+reason+": "+said))
		Expect(result.Unknown).To(BeEmpty())
	},
		Entry("not in the registry", "ErrImagePull", "manifest unknown", "manifest unknown"),
		Entry("tried again later", "ImagePullBackOff", "Back-off pulling image", "Back-off pulling image"),
		Entry("without a valid name", "InvalidImageName", "couldn't parse", "couldn't parse"),
		Entry("not permitted to be pulled", "ErrImageNeverPull", "policy is Never", "policy is Never"),
		Entry("with a URL that opens a store for a while", "ErrImagePull",
			`Get "https://store.example/layer?X-Sign=abc&e=1": EOF`, `Get "https://store.example/layer?…": EOF`),
		Entry("with the password of a proxy", "ErrImagePull",
			"proxyconnect http://user:secret@proxy.example:3128/ refused",
			"proxyconnect http://…@proxy.example:3128/ refused"),
		Entry("with a long explanation", "ErrImagePull", strings.Repeat("x", 400), strings.Repeat("x", 297)+"…"),
	)

	It("should not be known while they are being pulled", func() {
		w.pull = func(container corev1.Container, _ int32) corev1.ContainerStatus {
			return corev1.ContainerStatus{Name: container.Name, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
		}
		result := look()
		Expect(result.Problems).To(BeEmpty())
		Expect(result.Unknown).To(ConsistOf(ContainSubstring("within 3m0s: 0 of 10 times, a node has an image")))
	})

	It("should not be known unless etcd-druid tells its own", func() {
		w.druidless = true
		Expect(look().Unknown).To(ConsistOf(And(ContainSubstring("etcd-druid in seed seed-a has not shown within 1m0s"),
			ContainSubstring("check that it runs"))))
	})

	It("should not be known if Gardener has none for the version, and say where one can be given", func() {
		w.controlPlanes = []seedfacts.ControlPlane{{Kubernetes: "1.34.3", Workers: true}}
		w = newWorld(func(o *probe.Options) { o.Images.Vector = vector[1:] })
		w.controlPlanes = []seedfacts.ControlPlane{{Kubernetes: "1.34.3"}}
		Expect(look().Unknown).To(ConsistOf(And(
			ContainSubstring("failed to find the image of kube-apiserver for Kubernetes 1.34.3"),
			ContainSubstring("IMAGEVECTOR_OVERWRITE"))))
	})

	DescribeTable("should not be tried beyond what can wait to move", func(
		controlPlanes []seedfacts.ControlPlane, why string,
	) {
		w.controlPlanes = controlPlanes
		Expect(look().Unknown).To(ConsistOf(HavePrefix("seed seed-b: " + why)))
		for _, object := range w.seen {
			Expect(object.GetName()).NotTo(HavePrefix("room-"))
		}
	},
		Entry("many kinds", make([]seedfacts.ControlPlane, 11),
			"the images of 11 kinds of control planes are asked for, at most 10 are permitted"),
		Entry("no version", []seedfacts.ControlPlane{{Kubernetes: "latest"}},
			`the images of Kubernetes "latest" are asked for, which is no version`),
	)

	It("should be asked of the other seed for each kind of control plane once, first for the one that is asked about",
		func() {
			var published []seedfacts.ControlPlane
			w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
				published = w.connection().Round.ControlPlanes
				return measured, nil
			}
			comes := func(name, version string, change func(*gardencorev1beta1.Shoot)) {
				shoot := newShoot(name)
				shoot.Spec.Kubernetes.Version = version
				change(shoot)
				Expect(w.garden.Create(w.ctx, shoot)).To(Succeed())
			}
			same := func(*gardencorev1beta1.Shoot) {}
			comes("a", "1.33.1", same)
			comes("b", "1.33.1", same)
			comes("c", "1.33.1", func(shoot *gardencorev1beta1.Shoot) {
				shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "w"}}
				shoot.Spec.ControlPlane = &gardencorev1beta1.ControlPlane{
					HighAvailability: &gardencorev1beta1.HighAvailability{}}
			})
			comes("d", "1.31.0", func(shoot *gardencorev1beta1.Shoot) { begun(shoot) })
			comes("z", "1.35.0", func(shoot *gardencorev1beta1.Shoot) { shoot.Spec.SeedName = new(own) })
			seed := w.seedNamed(own)
			metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.RoomRequest(peer), "garden-demo/z")
			metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.ProbeRequest(peer),
				w.clock.Now().Format("2006-01-02T15:04:05Z07:00"))
			Expect(w.garden.Update(w.ctx, seed)).To(Succeed())
			w.look()
			Expect(published).To(HaveExactElements(seedfacts.ControlPlane{Kubernetes: "1.35.0"},
				seedfacts.ControlPlane{Kubernetes: "1.33.1"},
				seedfacts.ControlPlane{Kubernetes: "1.33.1", Workers: true, HighlyAvailableVPN: true}))
		})
})

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/test/landscape/apply"
	. "github.com/livecpm/livecpm/test/landscape/garden"
)

var _ = Describe("packChart", func() {
	var dir string

	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		Expect(os.MkdirAll(filepath.Join(dir, "templates"), 0o755)).To(Succeed())
		for _, name := range []string{"Chart.yaml", "doc.go", "templates/deployment.yaml"} {
			Expect(os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600)).To(Succeed())
		}
	})

	It("should pack everything but Go files below the chart's name", func() {
		packed, err := PackChart(dir, "extension")
		Expect(err).NotTo(HaveOccurred())

		unzipped, err := gzip.NewReader(bytes.NewReader(packed))
		Expect(err).NotTo(HaveOccurred())
		archive := tar.NewReader(unzipped)
		files := map[string]string{}
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred())
			content, err := io.ReadAll(archive)
			Expect(err).NotTo(HaveOccurred())
			files[header.Name] = string(content)
		}
		Expect(files).To(Equal(map[string]string{
			"extension/Chart.yaml":                "Chart.yaml",
			"extension/templates/deployment.yaml": "templates/deployment.yaml",
		}))
	})

	It("should give the same bytes for the same content, so that nothing is installed again", func() {
		first, err := PackChart(dir, "extension")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Chtimes(filepath.Join(dir, "Chart.yaml"), time.Unix(1, 0), time.Unix(1, 0))).To(Succeed())
		second, err := PackChart(dir, "extension")
		Expect(err).NotTo(HaveOccurred())
		Expect(second).To(Equal(first))
	})
})

var _ = Describe("garden.yaml", func() {
	render := func(authorizers bool) []*unstructured.Unstructured {
		GinkgoHelper()
		rendered, err := apply.Render("garden.yaml", GardenManifest, map[string]any{
			"GardenerVersion": "v1.2.3", "InternalDomain": "internal.example", "ShootDomain": "shoots.example",
			"Regions":            []string{"here", "there"},
			"ProviderLocalChart": "", "ProviderLocalImage": "image", "BackupFolder": "/backups",
			"KubernetesVersion": "1.2.3", "Authorizers": authorizers,
			"MachineImage": MachineImage, "MachineDriverImage": MachineDriverImage,
			"CloudControllerImage": CloudControllerImage,
			"TestExtensionChart":   "", "TestExtensionImage": TestExtensionImage,
		})
		Expect(err).NotTo(HaveOccurred())
		objects, err := apply.Decode(rendered)
		Expect(err).NotTo(HaveOccurred())
		return objects
	}

	It("should make gardenlets administrators only where no seed authorizer is", func() {
		binding := And(HaveField("Object", HaveKeyWithValue("kind", "ClusterRoleBinding")),
			WithTransform((*unstructured.Unstructured).GetName, Equal("gardener.cloud:system:seeds")))
		Expect(render(false)).To(ContainElement(binding))
		Expect(render(true)).NotTo(ContainElement(HaveField("Object", HaveKeyWithValue("kind", "ClusterRoleBinding"))))
		Expect(render(true)).To(HaveLen(len(render(false)) - 1))
	})

	It("should serve every resource that a shoot with workers has", func() {
		served := map[string][]string{}
		for _, object := range render(true) {
			if object.GetKind() != "ControllerRegistration" {
				continue
			}
			resources, _, err := unstructured.NestedSlice(object.Object, "spec", "resources")
			Expect(err).NotTo(HaveOccurred())
			for _, resource := range resources {
				fields := resource.(map[string]any)
				served[fields["kind"].(string)] = append(served[fields["kind"].(string)], fields["type"].(string))
			}
		}
		for _, kind := range []string{"Infrastructure", "ControlPlane", "OperatingSystemConfig", "Worker", "DNSRecord",
			"BackupEntry"} {
			Expect(served[kind]).To(ConsistOf("local"), kind)
		}
		Expect(served["Network"]).To(ConsistOf("test"))
		Expect(served["Extension"]).To(ConsistOf("test-early", "test-late"))
	})

	It("should let the extension that restores workers read the garden, as gardener-operator does", func() {
		Expect(render(true)).To(ContainElement(HaveField("Object", SatisfyAll(
			HaveKeyWithValue("kind", "ControllerDeployment"), HaveKeyWithValue("injectGardenKubeconfig", true),
			HaveKeyWithValue("metadata", HaveKeyWithValue("name", "provider-local"))))))
	})

	It("should know the distance between any two regions in both directions", func() {
		var distances map[string]string
		for _, object := range render(true) {
			if object.GetName() == "local-scheduling-regions" {
				var err error
				distances, _, err = unstructured.NestedStringMap(object.Object, "data")
				Expect(err).NotTo(HaveOccurred())
			}
		}
		Expect(distances).To(HaveLen(2))
		Expect(distances["here"]).To(MatchYAML("there: 50"))
		Expect(distances["there"]).To(MatchYAML("here: 50"))
	})
})

var _ = Describe("livecpm-controller-manager.yaml", func() {
	It("should be a configuration that livecpm-controller-manager accepts", func() {
		rendered, err := apply.Render("livecpm-controller-manager.yaml", LivecpmConfig,
			map[string]any{"Kubeconfig": "/some/kubeconfig", "HealthPort": 1, "MetricsPort": 2, "DrainBudget": 3})
		Expect(err).NotTo(HaveOccurred())
		config, err := configv1alpha1.DecodeControllerManager(rendered)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.GardenClientConnection.Kubeconfig).To(Equal("/some/kubeconfig"))
		Expect(config.LeaderElection.LeaderElect).To(HaveValue(BeFalse()),
			"nobody would start it again after it has lost its lease")
		Expect(config.Controllers.Drain).
			To(And(HaveField("MaxPerSource", HaveValue(Equal(3))), HaveField("MaxPerDestination", HaveValue(Equal(3)))))
		Expect(config.Controllers.GateWatchdog.Restore).To(HaveValue(BeTrue()))
	})
})

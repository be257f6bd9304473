// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/gardener/gardener/imagevector"
	imagevectorutils "github.com/gardener/gardener/pkg/utils/imagevector"

	. "github.com/livecpm/livecpm/test/landscape/seedsetup"
)

var _ = Describe("imageVectorOverwrite", func() {
	It("should say of each of Gardener's images what becomes of it, and of no other", func() {
		known := sets.New[string]()
		for _, source := range imagevector.Containers() {
			known.Insert(source.Name)
		}
		decided := sets.New[string]()
		for _, images := range ImageSets() {
			Expect(sets.List(decided.Intersection(images))).To(BeEmpty(), "are in two sets")
			decided = decided.Union(images)
		}
		Expect(sets.List(known.Difference(decided))).To(BeEmpty(), "are in no set")
		Expect(sets.List(decided.Difference(known))).To(BeEmpty(), "are no images of this version of Gardener")
	})

	It("should give a gardenlet the images that the seeds have", func() {
		content, err := ImageVectorOverwrite(imagevector.Containers())
		Expect(err).NotTo(HaveOccurred())
		overwrite, _, err := imagevectorutils.Read(content)
		Expect(err).NotTo(HaveOccurred())
		merged := imagevectorutils.MergeImageVectors(imagevector.Containers(), overwrite)
		Expect(merged).To(HaveLen(len(imagevector.Containers())),
			"an entry that overwrites none would be an image of its own")

		version := imagevectorutils.TargetVersion("1.36.3")
		find := func(vector imagevectorutils.ImageVector, name string) string {
			GinkgoHelper()
			image, err := vector.FindImage(name, version)
			Expect(err).NotTo(HaveOccurred())
			return image.String()
		}
		Expect(find(merged, "prometheus")).To(Equal(PlaceholderImage))
		for _, real := range []string{"kube-apiserver", "kube-controller-manager", "etcd-druid",
			"gardener-resource-manager", "istio-istiod", "istio-proxy", "kube-scheduler", "machine-controller-manager",
			"vpn-server", "envoy-proxy"} {
			Expect(find(merged, real)).To(Equal(find(imagevector.Containers(), real)))
		}
	})

	It("should keep the versions of images that placeholders stand for", func() {
		// Some components ask for them, as the one that deploys Prometheus does.
		content, err := ImageVectorOverwrite(imagevector.Containers())
		Expect(err).NotTo(HaveOccurred())
		overwrite, _, err := imagevectorutils.Read(content)
		Expect(err).NotTo(HaveOccurred())
		before, err := imagevector.Containers().FindImage("prometheus")
		Expect(err).NotTo(HaveOccurred())
		after, err := imagevectorutils.MergeImageVectors(imagevector.Containers(), overwrite).FindImage("prometheus")
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Version).To(HaveValue(Equal(*before.Version)))
	})

	It("should overwrite each entry of an image that differs by version or architecture", func() {
		source := func(target, architecture string) *imagevectorutils.ImageSource {
			return &imagevectorutils.ImageSource{Name: "vali", TargetVersion: new(target),
				Architectures: []string{architecture}, Repository: new("example/vali"), Tag: new("v1")}
		}
		vector := imagevectorutils.ImageVector{source(">= 1.36", "amd64"), source("< 1.36", "amd64"),
			source(">= 1.36", "arm64")}
		content, err := ImageVectorOverwrite(vector)
		Expect(err).NotTo(HaveOccurred())
		overwrite, _, err := imagevectorutils.Read(content)
		Expect(err).NotTo(HaveOccurred())
		Expect(imagevectorutils.MergeImageVectors(vector, overwrite)).To(HaveLen(3))
		Expect(imagevectorutils.MergeImageVectors(vector, overwrite)).
			To(HaveEach(HaveField("Ref", HaveValue(Equal(PlaceholderImage)))))
	})

	It("should refuse an image that nobody has thought of", func() {
		_, err := ImageVectorOverwrite(imagevectorutils.ImageVector{{Name: "brand-new", Ref: new("example/new:v1")}})
		Expect(err).To(MatchError(And(ContainSubstring(`"brand-new"`), ContainSubstring("overwrite.go"))))
	})
})

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	gardenletvalidation "github.com/gardener/gardener/pkg/api/config/gardenlet/v1alpha1/validation"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/pki"
	. "github.com/livecpm/livecpm/test/landscape/seedsetup"
)

func init() { gardenletfeatures.RegisterFeatureGates() }

var _ = Describe("Setup", func() {
	var gardenlets []*gardenletconfigv1alpha1.GardenletConfiguration

	BeforeEach(func() {
		cfg, err := config.New("test", "192.0.2", "/repo", GinkgoT().TempDir(), "/cache")
		Expect(err).NotTo(HaveOccurred())
		ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
		Expect(err).NotTo(HaveOccurred())
		gardenlets = nil
		for _, seed := range cfg.Seeds {
			gardenlet, err := (&Setup{Config: cfg, Seed: seed, GardenCA: ca}).GardenletConfiguration()
			Expect(err).NotTo(HaveOccurred())
			gardenlets = append(gardenlets, gardenlet)
		}
	})

	It("should configure gardenlets that upstream accepts", func() {
		for _, gardenlet := range gardenlets {
			Expect(gardenletvalidation.ValidateGardenletConfiguration(gardenlet, nil)).To(BeEmpty())
		}
	})

	It("should configure what a live migration between the seeds needs", func() {
		a, b := gardenlets[0].SeedConfig.Spec, gardenlets[1].SeedConfig.Spec
		Expect(a.DNS.Internal).To(Equal(b.DNS.Internal))
		Expect(a.Provider.Type).To(Equal(b.Provider.Type))
		Expect(a.Provider.Region).NotTo(Equal(b.Provider.Region))
		Expect(a.Ingress.Domain).NotTo(Equal(b.Ingress.Domain))
		for _, gardenlet := range gardenlets {
			Expect(gardenlet.ETCDConfig.FeatureGates).To(HaveKeyWithValue("UpgradeEtcdVersion", true))
			Expect(gardenlet.SeedConfig.Spec.Backup).NotTo(BeNil())
		}
	})
})

var _ = Describe("druidImages", func() {
	write := func(content string) string {
		dir := GinkgoT().TempDir()
		Expect(os.MkdirAll(filepath.Join(dir, "internal", "images"), 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "internal", "images", "images.yaml"), []byte(content), 0o600)).To(Succeed())
		return dir
	}

	It("should read references", func() {
		Expect(DruidImages(write(`images:
- {name: etcd-wrapper-next, repository: example/wrapper, tag: v2}
- {name: etcd-backup-restore-next, repository: example/restore, tag: v3}
- {name: alpine, repository: example/alpine, tag: "4"}
`))).To(Equal(map[string]string{"etcd-wrapper-next": "example/wrapper:v2", "etcd-backup-restore-next": "example/restore:v3", "alpine": "example/alpine:4"}))
	})

	It("should say which image a new version of etcd-druid has no more", func() {
		_, err := DruidImages(write("images: []"))
		Expect(err).To(MatchError(ContainSubstring(`"etcd-wrapper-next"`)))
	})
})

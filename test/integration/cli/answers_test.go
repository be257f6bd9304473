// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/integration/framework"
)

// What the plugin finds out about an installation and a migration, against the real API servers.
var _ = Describe("kubectl livecpm, asked", func() {
	const yes, not = exit.Done, exit.No
	var (
		count               int
		source, destination string
		shoot               *gardencorev1beta1.Shoot
		out, errs           bytes.Buffer
	)

	livecpm := func(args ...string) exit.Code {
		out.Reset()
		errs.Reset()
		code := app.Run(ctx, app.Streams{Out: &out, Err: &errs}, append([]string{"--kubeconfig", kubeconfig}, args...))
		GinkgoWriter.Printf("$ kubectl livecpm %v\n%s%s(code %d)\n", args, out.String(), errs.String(), code)
		return code
	}

	BeforeEach(func() {
		count++
		source, destination = fmt.Sprintf("seed-asked-%d-a", count), fmt.Sprintf("seed-asked-%d-b", count)
		for _, name := range []string{source, destination} {
			Expect(garden.CreateSeed(ctx, framework.NewSeed(name))).To(Succeed())
		}
		shoot = framework.NewShoot(fmt.Sprintf("asked-%d", count), source)
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
	})

	It("should check the installation, with the gate as the API server has it, and prove it in flight", func() {
		check := func() map[steps.Check]view.LinkedCheck {
			GinkgoHelper()
			Expect(livecpm("check", "--seed", source, "-o", "json")).To(Equal(not), "there is no controller manager")
			var result view.Installation
			Expect(json.Unmarshal(out.Bytes(), &result)).To(Succeed())
			found := map[steps.Check]view.LinkedCheck{}
			for _, check := range result.Sections[0].Checks {
				found[check.Name] = check
			}
			return found
		}
		found := check()
		Expect(found).To(And(HaveKeyWithValue(steps.Check("GatePolicy"), HaveField("Status", view.Pass)),
			HaveKeyWithValue(steps.Check("Permissions"), HaveField("Status", view.Pass)),
			HaveKeyWithValue(steps.Check("ControllerManager"), HaveField("Evidence", ContainSubstring("ever led")))))

		// The admission plugins' informers may not know the seed yet.
		Eventually(func() exit.Code { return livecpm("start", shoot.Name, "--to", destination) }).Should(Equal(yes))
		Expect(check()).To(HaveKeyWithValue(steps.Check("GateInForce"),
			And(HaveField("Status", view.Pass), HaveField("Evidence", ContainSubstring("proved for")))))
	})

	It("should show versions and events, and dump all of it", func() {
		Expect(livecpm("version", "-o", "wide")).To(BeElementOf(yes, not))
		Expect(out.String()).To(And(ContainSubstring("seed "+source), MatchRegexp(`garden +0\.1\.0 `)))

		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: shoot.Namespace, GenerateName: "asked-"},
			InvolvedObject: corev1.ObjectReference{Kind: "Shoot", Namespace: shoot.Namespace, Name: shoot.Name},
			Reason:         "Testing", Message: "something happens", LastTimestamp: metav1.Now()}
		Expect(garden.Client.Create(ctx, event)).To(Succeed())
		Expect(livecpm("events", shoot.Name)).To(Equal(not), "there is no access to the seed")
		Expect(out.String()).To(ContainSubstring("Testing: something happens"))
		Expect(errs.String()).To(ContainSubstring("--seed-kubeconfig " + source + "=PATH"))

		file := filepath.Join(GinkgoT().TempDir(), "dump.tar.gz")
		Expect(livecpm("dump", shoot.Name, "--file", file)).To(Equal(not))
		names := namesIn(file)
		Expect(names).To(ContainElements("livecpm-dump/garden/shoot.yaml", "livecpm-dump/events.txt",
			"livecpm-dump/garden/gate.yaml", "livecpm-dump/MISSING", "livecpm-dump/migration.txt"))
		Expect(livecpm("dump", shoot.Name, "--file", file)).To(Equal(exit.Error), "it overwrites nothing")
		Expect(errs.String()).To(ContainSubstring("file exists"))
	})
})

// namesIn returns the names of the files in the archive, which nobody else may read.
func namesIn(file string) []string {
	GinkgoHelper()
	info, err := os.Stat(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
	content, err := os.Open(file)
	Expect(err).NotTo(HaveOccurred())
	defer content.Close()
	zipped, err := gzip.NewReader(content)
	Expect(err).NotTo(HaveOccurred())
	archive := tar.NewReader(zipped)
	var names []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		Expect(err).NotTo(HaveOccurred())
		names = append(names, header.Name)
	}
}

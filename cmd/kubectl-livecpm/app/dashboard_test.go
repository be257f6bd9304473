// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// fakeGarden answers as the API server of a garden with the Shoot of a world, and takes no writes. It returns the path
// of a kubeconfig for it.
func fakeGarden(world string) string {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "cli", "view", "testdata", "worlds", world+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	var picture summary.ControlPlane
	Expect(yaml.Unmarshal(data, &picture)).To(Succeed())
	shoot, err := json.Marshal(picture.Shoot)
	Expect(err).NotTo(HaveOccurred())
	answers := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
			`{"name":"events","kind":"Event","namespaced":true},` +
			`{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
		"/apis": `{"kind":"APIGroupList","groups":[{"name":"core.gardener.cloud","versions":[` +
			`{"groupVersion":"core.gardener.cloud/v1beta1","version":"v1beta1"}]}]}`,
		"/apis/core.gardener.cloud/v1beta1": `{"kind":"APIResourceList","groupVersion":"core.gardener.cloud/v1beta1",` +
			`"resources":[{"name":"shoots","kind":"Shoot","namespaced":true},{"name":"seeds","kind":"Seed"}]}`,
		"/apis/core.gardener.cloud/v1beta1/namespaces/garden-demo/shoots/live": string(shoot),
		"/apis/core.gardener.cloud/v1beta1/seeds": `{"kind":"SeedList","apiVersion":"core.gardener.cloud/v1beta1",` +
			`"items":[{"metadata":{"name":"seed-a","annotations":{"migration.gardener.cloud/protocols":"1"}},` +
			`"status":{"gardener":{"version":"v1.150.0"}}}]}`,
		"/api/v1/namespaces/garden-demo/events": `{"kind":"EventList","apiVersion":"v1","items":[]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden"}`)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		default:
			_, _ = io.WriteString(w, answer)
		}
	}))
	DeferCleanup(server.Close)
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, []byte(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "`+server.URL+`"}}]
users: [{name: c, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: c, namespace: garden-demo}}]
`), 0o600)).To(Succeed())
	return path
}

var _ = Describe("dashboard", func() {
	BeforeEach(func() { GinkgoT().Setenv("XDG_CONFIG_HOME", GinkgoT().TempDir()) })

	DescribeTable("should refuse what it cannot listen on, before it looks at the garden",
		func(message string, args ...string) {
			var out, errs bytes.Buffer
			Expect(app.Run(context.Background(), app.Streams{Out: &out, Err: &errs},
				append([]string{"dashboard"}, args...))).NotTo(Equal(exit.Done))
			Expect(errs.String()).To(ContainSubstring(message))
			Expect(out.String()).To(BeEmpty())
		},
		Entry("a name", `--address is "localhost"; give an IP address`, "live", "--address", "localhost"),
		Entry("no address", `--address is ""`, "live", "--address", ""),
		Entry("no port", "--port", "live", "--port", "70000"),
		Entry("no shoot", "accepts 1 arg(s)"),
	)

	It("should serve the page to this machine alone, with commands for the same garden, until it ends", func() {
		kubeconfig := fakeGarden("joining")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out, ended := gbytes.NewBuffer(), make(chan exit.Code, 1)
		go func() {
			ended <- app.Run(ctx, app.Streams{Out: out, Err: io.Discard},
				[]string{"dashboard", "live", "--kubeconfig", kubeconfig, "--seed-access", "none"})
		}()
		Eventually(out).Should(gbytes.Say("\n"))
		url := strings.TrimSpace(string(out.Contents()))
		Expect(url).To(HavePrefix("http://127.0.0.1:"))
		answer, err := http.Get(url)
		Expect(err).NotTo(HaveOccurred())
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(And(ContainSubstring("garden-demo/live"), ContainSubstring("JoiningEtcdMembers"),
			MatchRegexp(`As of [-0-9]+ [:0-9]+ HERE\.`),
			ContainSubstring("kubectl livecpm abort live -n garden-demo --kubeconfig="+kubeconfig)))
		cancel()
		Eventually(ended).Should(Receive(Equal(exit.Done)))
	})

	It("should not serve a shoot that does not exist", func() {
		var out, errs bytes.Buffer
		Expect(app.Run(context.Background(), app.Streams{Out: &out, Err: &errs},
			[]string{"dashboard", "dead", "--kubeconfig", fakeGarden("joining")})).NotTo(Equal(exit.Done))
		Expect(errs.String()).To(ContainSubstring("failed to get Shoot garden-demo/dead"))
		Expect(out.String()).To(BeEmpty())
	})
})

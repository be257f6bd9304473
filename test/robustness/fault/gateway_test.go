// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

var _ = Describe("GatewayOf", func() {
	const prefix = "/api/v1/namespaces/istio-ingress/pods"

	var (
		stand *gateway.Gateway
		seed  fault.Seed
	)

	BeforeEach(func() {
		stand = &gateway.Gateway{Log: logr.Discard(), Faults: gateway.NewFaults()}
		admin := httptest.NewServer(stand.AdminHandler())
		DeferCleanup(admin.Close)
		address, err := url.Parse(admin.URL)
		Expect(err).NotTo(HaveOccurred())

		// An API server with one pod, to which it is a proxy.
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+prefix, func(w http.ResponseWriter, r *http.Request) {
			list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			if r.URL.Query().Get("labelSelector") == "app=istio-ingressgateway" {
				list.Items = []corev1.Pod{
					{ObjectMeta: metav1.ObjectMeta{Name: "gw"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
				}
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
		})
		mux.Handle(prefix+"/gw:15021/proxy/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, prefix+"/gw:15021/proxy")
			r.Out.URL.Scheme, r.Out.URL.Host = address.Scheme, address.Host
		}})
		server := httptest.NewServer(mux)
		DeferCleanup(server.Close)
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, Timeout: patience.Eventually})
		Expect(err).NotTo(HaveOccurred())
		seed = fault.Seed{Name: "seed-a", Kube: kube}
	})

	It("should put faults in force and lift them, in the words of the stand-in", func(ctx SpecContext) {
		Expect(fault.GatewayOf(seed).Add(ctx, fault.GatewayFault{SNI: "*--shoot--demo--live.*", Cut: "freeze"})).
			To(Succeed())
		Expect(fault.GatewayOf(seed).Add(ctx, fault.GatewayFault{SNI: "*--shoot--demo--live.*", Latency: "90ms"})).
			To(Succeed())
		faults := []string{}
		for _, f := range stand.Faults.List() {
			faults = append(faults, fmt.Sprintf("%s %s %s", f.SNI, f.Cut, f.Latency.Duration))
		}
		Expect(faults).To(Equal([]string{"*--shoot--demo--live.* freeze 0s", "*--shoot--demo--live.*  90ms"}))
		Expect(fault.GatewayOf(seed).Lift(ctx, fault.GatewayFault{Cut: "freeze"})).To(Succeed())
		Expect(stand.Faults.List()).To(HaveExactElements(HaveField("Latency.Duration", 90*time.Millisecond)))
		Expect(fault.GatewayOf(seed).Lift(ctx, fault.GatewayFault{Latency: "25ms"})).To(Succeed())
		Expect(stand.Faults.List()).To(HaveLen(1))
		Expect(fault.GatewayOf(seed).Lift(ctx, fault.GatewayFault{Latency: "90ms"})).To(Succeed())
		Expect(stand.Faults.List()).To(BeEmpty())
	})

	It("should lift all faults for those who name none", func(ctx SpecContext) {
		Expect(fault.GatewayOf(seed).Add(ctx, fault.GatewayFault{SNI: "*", Cut: "reset"})).To(Succeed())
		Expect(fault.GatewayOf(seed).Lift(ctx, fault.GatewayFault{})).To(Succeed())
		Expect(stand.Faults.List()).To(BeEmpty())
	})

	It("should tell that the gateway refuses a fault", func(ctx SpecContext) {
		Expect(fault.GatewayOf(seed).Add(ctx, fault.GatewayFault{SNI: "*", Cut: "sideways"})).
			To(MatchError(ContainSubstring("failed to change the faults of gateway gw in seed-a")))
		Expect(stand.Faults.List()).To(BeEmpty())
	})
})

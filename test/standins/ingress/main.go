// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command ingress stands in for istiod and for the Envoy behind istio-ingress/istio-ingressgateway, whose images are
// not available. It runs as a pod in each seed. See package gateway.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

// The ports are those of upstream's pods.
const (
	defaultGatewayPort = 443
	defaultListen      = ":9443"
	defaultConnect     = ":8443"
	defaultAdmin       = ":15021"
	defaultDrain       = 5 * time.Second
)

type options struct {
	kubeconfig string
	identity   gateway.Identity
	listen     string
	connect    string
	admin      string
	drain      time.Duration
}

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)
	runtimelog.SetLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := newCommand(log).ExecuteContext(ctx); err != nil {
		log.Error(err, "Failed to run the ingress gateway")
		os.Exit(1)
	}
}

func newCommand(log logr.Logger) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "ingress",
		Short: "Ingress gateway of a seed: routes TLS by SNI after Istio's Gateway and VirtualService objects",
		Long: "Without a subcommand it is configured by flags. \"proxy router\" is the command line of " +
			"Istio's proxy, for pods that Gardener has made for that.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), log, opts) },
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "kubeconfig of the seed; default: the pod's service account")
	flags.StringVar(&opts.identity.Namespace, "namespace", "istio-ingress", "namespace of the gateway's workload")
	flags.StringToStringVar(&opts.identity.Labels, "labels",
		map[string]string{"app": "istio-ingressgateway", "istio": "ingressgateway"},
		"labels of the gateway's pods, which the selectors of Gateways must match")
	flags.Uint32Var(&opts.identity.Port, "gateway-port", defaultGatewayPort, "port number of the servers in Gateways")
	flags.StringVar(&opts.listen, "listen", defaultListen,
		"address to accept connections on: where the Service leads that port")
	flags.StringVar(&opts.connect, "connect", defaultConnect,
		"address to accept clients of the HTTP proxy on: VPN clients and apiserver-proxies of shoots with workers")
	flags.StringVar(&opts.admin, "admin", defaultAdmin, "address of readiness, status and faults")
	flags.DurationVar(&opts.drain, "drain", defaultDrain, "time that open connections are given at the end")
	cmd.AddCommand(newProxyCommand(log))
	return cmd
}

func run(ctx context.Context, log logr.Logger, opts options) error {
	config, err := restConfig(opts.kubeconfig)
	if err != nil {
		return fmt.Errorf("failed to load kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme,
		istionetworkingv1alpha3.AddToScheme, istionetworkingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("failed to build scheme: %w", err)
		}
	}
	objects, err := cache.New(config,
		cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("failed to create cache: %w", err)
	}
	gw := &gateway.Gateway{Log: log, Identity: opts.identity, Backends: gateway.Backends{Reader: objects},
		Faults: gateway.NewFaults()}

	listen := net.ListenConfig{KeepAliveConfig: wire.KeepAlive}
	listener, err := listen.Listen(ctx, "tcp", opts.listen)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	proxied, err := listen.Listen(ctx, "tcp", opts.connect)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	admin := &http.Server{Addr: opts.admin, Handler: gw.AdminHandler(), ReadHeaderTimeout: 5 * time.Second}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return objects.Start(ctx) })
	group.Go(func() error { return follow(ctx, log, objects, gw) })
	group.Go(func() error { return gw.Serve(ctx, listener, opts.drain) })
	group.Go(func() error { return gw.ServeConnect(ctx, proxied) })
	group.Go(func() error {
		defer context.AfterFunc(ctx, func() { _ = admin.Close() })()
		if err := admin.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("failed to serve the admin port: %w", err)
		}
		return nil
	})
	log.Info("Serving", "listen", opts.listen, "connect", opts.connect, "admin", opts.admin, "labels",
		opts.identity.Labels)
	return group.Wait()
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// follow renews the routes whenever an object changes.
func follow(ctx context.Context, log logr.Logger, objects cache.Cache, gw *gateway.Gateway) error {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting already and will see this change too
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	}
	for _, object := range gateway.Objects() {
		informer, err := informerFor(ctx, log, objects, object)
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("failed to watch %T: %w", object, err)
		}
	}
	// Endpoints are read for each new connection; they only have to be in the cache.
	for _, object := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
		if _, err := informerFor(ctx, log, objects, object); err != nil {
			return err
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		return nil // only the end of ctx ends the wait
	}
	for {
		if err := gw.Sync(ctx); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// informerFor waits for Istio's CRDs, which may be installed after this pod.
func informerFor(
	ctx context.Context, log logr.Logger, objects cache.Cache, object client.Object,
) (informer cache.Informer, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		if informer, err = objects.GetInformer(ctx, object, cache.BlockUntilSynced(false)); meta.IsNoMatchError(err) {
			log.Info("Waiting for a custom resource definition", "reason", err.Error())
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to watch %T: %w", object, err)
	}
	return informer, nil
}

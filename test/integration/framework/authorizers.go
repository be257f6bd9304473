// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	admissioncontrollerapp "github.com/gardener/gardener/cmd/gardener-admission-controller/app"
	netutils "github.com/gardener/gardener/pkg/utils/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livecpm/livecpm/test/authorizers"
	"github.com/livecpm/livecpm/test/landscape/pki"
)

const loopback = "127.0.0.1"

// gatekeeperConfiguration is the environment variable that makes this program a gardener-admission-controller. Its
// value is the path of the configuration.
const gatekeeperConfiguration = "LIVECPM_GARDENER_ADMISSION_CONTROLLER_CONFIG"

// gatekeeperEndTimeout is how long a gardener-admission-controller may take to end.
const gatekeeperEndTimeout = time.Minute

// Gardener's command sets klog's logger when it starts, which is a data race with the gardener-apiserver that logs in
// the same process already. So it gets a process of its own, of this same program.
func init() {
	file := os.Getenv(gatekeeperConfiguration)
	if file == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// The other end is closed when the garden is stopped, and by the system when the tests have ended in any other
		// way.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	command := admissioncontrollerapp.NewCommand()
	command.SetArgs([]string{"--config=" + file})
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s ended: %v\n", authorizers.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// gatekeeper is the gardener-admission-controller of a garden.
type gatekeeper struct {
	server authorizers.Server
	// lifeline ends it when it is closed, ended gets what it has ended with. Without a lifeline it has not been
	// started.
	lifeline io.Closer
	process  *os.Process
	ended    chan error
}

// newGatekeeper lets the kube-apiserver, which does not run yet, ask a gardener-admission-controller that does not run
// yet either. That is no matter as long as no seed asks for anything.
func newGatekeeper(folder string, apiServer *envtest.APIServer) (*gatekeeper, error) {
	g := &gatekeeper{server: authorizers.Server{Address: loopback, CertDir: filepath.Join(folder, "serving"),
		Kubeconfig: filepath.Join(folder, "kubeconfig")}}
	for _, port := range []*int{&g.server.Port, &g.server.HealthPort, &g.server.MetricsPort} {
		var err error
		if *port, _, err = netutils.SuggestPort(loopback); err != nil {
			return nil, fmt.Errorf("failed to find a free port: %w", err)
		}
	}
	ca, err := pki.EnsureCA(g.server.CertDir, "ca")
	if err != nil {
		return nil, err
	}
	if _, err := ca.Ensure("tls", pki.Request{CommonName: authorizers.Name, IPs: []string{loopback}}); err != nil {
		return nil, err
	}
	g.server.CA = ca.CertPEM

	webhook, err := g.server.WebhookKubeconfig()
	if err != nil {
		return nil, err
	}
	kubeconfig, configuration := filepath.Join(folder, "seed-authorizer.kubeconfig"),
		filepath.Join(folder, "authorization.yaml")
	if err := os.WriteFile(kubeconfig, webhook, 0o600); err != nil {
		return nil, err
	}
	content, err := authorizers.AuthorizationConfiguration(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(configuration, content, 0o600); err != nil {
		return nil, err
	}
	apiServer.Configure().
		Set("authorization-config", configuration).
		Disable("authorization-mode").
		Disable("authorization-webhook-cache-authorized-ttl").
		Disable("authorization-webhook-cache-unauthorized-ttl")
	return g, nil
}

// start runs Gardener's own command, and lets the API servers ask it as soon as it answers.
func (g *gatekeeper) start(garden *Garden) error {
	ctx := context.Background()
	access, webhooks, err := g.server.Objects(ctx)
	if err != nil {
		return err
	}
	for _, object := range access {
		if err := garden.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("failed to create %T %s: %w", object, object.GetName(), err)
		}
	}
	kubeconfig, err := garden.Kubeconfig(authorizers.User)
	if err != nil {
		return err
	}
	if err := os.WriteFile(g.server.Kubeconfig, kubeconfig, 0o600); err != nil {
		return err
	}
	content, err := g.server.Configuration("error")
	if err != nil {
		return err
	}
	file := filepath.Join(garden.folder, "admission-controller.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}

	if err := g.run(file); err != nil {
		return err
	}
	if err := g.await(ctx); err != nil {
		return err
	}
	for _, object := range webhooks {
		if err := garden.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("failed to create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func (g *gatekeeper) run(file string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("failed to find this program: %w", err)
	}
	return g.runCommand(exec.Command(program), file) // #nosec G204 -- It is this program.
}

func (g *gatekeeper) runCommand(command *exec.Cmd, file string) error {
	command.Env = append(os.Environ(), gatekeeperConfiguration+"="+file)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	lifeline, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("failed to make a pipe to %s: %w", authorizers.Name, err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("failed to start %s: %w", authorizers.Name, err)
	}
	g.lifeline, g.process, g.ended = lifeline, command.Process, make(chan error, 1)
	go func() { g.ended <- command.Wait() }()
	return nil
}

func (g *gatekeeper) await(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute,
		true, func(context.Context) (bool, error) {
			select {
			case err := <-g.ended:
				g.ended <- err
				return false, errors.Join(errors.New("it has ended"), err)
			default:
			}
			var response *http.Response
			if response, last = http.Get(
				g.server.HealthURL()); last != nil { //nolint:noctx // The garden is not used yet.
				return false, nil //nolint:nilerr // It is tried again.
			}
			last = errors.Join(response.Body.Close())
			return response.StatusCode == http.StatusOK, nil
		})
	if err != nil {
		return fmt.Errorf("failed to wait for %s: %w", authorizers.Name, errors.Join(err, last))
	}
	return nil
}

// stop ends it and takes its webhooks away.
func (g *gatekeeper) stop(garden *Garden) error {
	if g.lifeline == nil {
		return nil
	}
	_, webhooks, err := g.server.Objects(context.Background())
	if err != nil {
		return err
	}
	for _, object := range webhooks {
		if err := garden.Client.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %T %s: %w", object, object.GetName(), err)
		}
	}
	return g.end()
}

// end asks it to end, and ends it if it does not. How it has ended does not count: Gardener's command waits five
// seconds for its servers and fails when a kube-apiserver still has a connection to them, which says nothing about what
// has been tested.
func (g *gatekeeper) end() error {
	if err := g.lifeline.Close(); err != nil {
		return fmt.Errorf("failed to ask %s to end: %w", authorizers.Name, err)
	}
	var ended error
	select {
	case ended = <-g.ended:
	case <-time.After(gatekeeperEndTimeout):
		if err := g.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("failed to end %s: %w", authorizers.Name, err)
		}
		ended = <-g.ended
	}
	if ended != nil {
		fmt.Fprintf(os.Stderr, "%s was asked to end and did so with: %v\n", authorizers.Name, ended)
	}
	return nil
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/program"
)

const (
	// Component is what hack/build-tools.sh calls the specs and Ginkgo's command.
	Component = "kubernetes-e2e"

	// processes is how many specs run at the same time: they wait more than they compute.
	processes = 4
	// migrationTimeout bounds the migration from the trigger to the end.
	migrationTimeout = 30 * time.Minute
	shootInterval    = 300 * time.Millisecond
	cleanUpLimit     = 2 * time.Minute

	// labelRun is what the framework of the specs puts on each namespace that it makes.
	labelRun = "e2e-run"
)

// Options say what to migrate.
type Options struct {
	// Landscape is where the garden and the seeds are. It must be up.
	Landscape *config.Config
	// Namespace and Shoot name the shoot. It moves to the seed that it is not on.
	Namespace, Shoot string
	// Private is an empty folder for what must not be kept: the access to the shoot.
	Private string
	// Artifacts takes reports, logs and the verdict.
	Artifacts string
	// Out takes the progress.
	Out io.Writer
}

// Run moves the shoot while the specs run, and returns what came of them. The verdict is nil only if no round came to
// its end; the error is not about specs that failed in the migration, which Verdict.Err tells.
func Run(ctx context.Context, options Options) (verdict *Verdict, err error) {
	list, err := Pinned()
	if err != nil {
		return nil, err
	}
	target, err := driver.Open(driver.Target{Landscape: options.Landscape, Namespace: options.Namespace,
		Name: options.Shoot, Timeout: migrationTimeout, Out: options.Out})
	if err != nil {
		return nil, err
	}
	shoot, err := target.Get(ctx)
	if err != nil {
		return nil, err
	}
	access, err := driver.ShootAccess(ctx, target.Garden.Client, shoot)
	if err != nil {
		return nil, err
	}
	specs, err := newClient(ctx, options, access, list)
	if err != nil {
		return nil, err
	}
	known, err := specs.Known(ctx)
	if err != nil {
		return nil, err
	}
	if err := list.Covers(known); err != nil {
		return nil, fmt.Errorf("specs.yaml is not of this version of Kubernetes: %w", err)
	}

	kube, err := kubernetes.NewForConfig(driver.ResolvedBy(driver.DNSServer(options.Landscape), access))
	if err != nil {
		return nil, fmt.Errorf("failed to create client for the shoot: %w", err)
	}
	c := &campaign{list: list, timeline: &Timeline{}, round: specs.Round, pause: program.Sleep, say: target.Say}
	c.migrate = func(ctx context.Context) (Migration, error) { return migrate(ctx, target, c.timeline) }
	defer func() { err = errors.Join(err, cleanUp(ctx, kube)) }()
	if err := AddNode(ctx, kube); err != nil {
		return nil, err
	}
	if verdict, err = c.run(ctx); verdict != nil {
		err = errors.Join(err, verdict.Write(options.Artifacts))
	}
	return verdict, err
}

// newClient returns what runs the specs, with access to the shoot by its public name, as an end user has it.
func newClient(ctx context.Context, options Options, access *rest.Config, list *List) (*Client, error) {
	specs, err := build.Tool(ctx, options.Landscape, Component)
	if err != nil {
		return nil, err
	}
	kubectl, err := build.Tool(ctx, options.Landscape, "kubectl")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(options.Private, "kubeconfig")
	if err := WriteKubeconfig(kubeconfig, access); err != nil {
		return nil, err
	}
	// The landscape's names are known to its own DNS server only.
	resolv := filepath.Join(options.Private, "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver "+options.Landscape.Garden.IP+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("failed to write the configuration of the resolver: %w", err)
	}
	return &Client{
		Binaries: Binaries{Ginkgo: filepath.Join(specs, "ginkgo"), E2E: filepath.Join(specs, "e2e.test"),
			Kubectl: filepath.Join(kubectl, "kubectl")},
		List: list, Kubeconfig: kubeconfig, Resolv: resolv, Processes: processes, Folder: options.Artifacts,
	}, nil
}

// WriteKubeconfig writes the access into a file that only its owner reads. Only the address, the certificates and the
// token are taken over: programs that read it have their own ways of dialling, and the retries of client-go.
func WriteKubeconfig(file string, access *rest.Config) error {
	const name = "specs"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: access.CertData,
		ClientKeyData: access.KeyData, Token: access.BearerToken}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		return fmt.Errorf("failed to write the access to the shoot: %w", err)
	}
	return nil
}

// migrate asks for the migration to the seed that the shoot is not on, and waits until the gardenlet there has
// reconciled the shoot.
func migrate(ctx context.Context, target *driver.Shoot, timeline *Timeline) (Migration, error) {
	_, destination, err := target.Seeds(ctx)
	if err != nil {
		return Migration{}, err
	}
	migration := Migration{Triggered: time.Now()}
	timeline.Enter(migration.Triggered, Requested)
	if err := target.Begin(ctx, destination, ""); err != nil {
		return migration, err
	}
	target.Say("the migration to %s is asked for", destination)
	ctx, cancel := context.WithTimeout(ctx, migrationTimeout)
	defer cancel()
	var last error
	if err := target.Follow(ctx, shootInterval, func(sight driver.Sight) bool {
		if last = sight.Err; last != nil {
			return false
		}
		timeline.Observe(sight.Ended, steps.Conditions(sight.Shoot))
		return driver.HandedOver(sight.Shoot, destination)
	}); err != nil {
		return migration, errors.Join(fmt.Errorf("the migration did not complete: %w", err), last)
	}
	migration.Completed = time.Now()
	timeline.Enter(migration.Completed, After)
	target.Say("the migration is complete, after %.0f s", migration.Completed.Sub(migration.Triggered).Seconds())
	return migration, nil
}

// cleanUp takes away the hollow node, and the namespaces of specs that were interrupted.
func cleanUp(ctx context.Context, kube kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	if err := RemoveNode(ctx, kube); err != nil {
		return err
	}
	left, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: labelRun})
	if err != nil {
		return fmt.Errorf("failed to look for namespaces of the specs: %w", err)
	}
	for _, namespace := range left.Items {
		if namespace.DeletionTimestamp != nil {
			continue
		}
		if err := kube.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}); client.IgnoreNotFound(
			err) != nil {
			return fmt.Errorf("failed to delete namespace %s of the specs: %w", namespace.Name, err)
		}
	}
	return nil
}

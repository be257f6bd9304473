// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joinbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/livecpm/livecpm/test/bench/machine"
	"github.com/livecpm/livecpm/test/bench/relaybench"
	"github.com/livecpm/livecpm/test/program"
)

const (
	leaderName  = "leader"
	learnerName = "learner"

	// host is the name in all peer URLs, because both members are on this machine. The port tells them apart.
	host = "localhost"
	// etcdTLS is how the names of the files begin that hold the credentials of the etcds.
	etcdTLS = "etcd-"
	// quota is more than any database of a benchmark.
	quota = 16 << 30
	// snapshotCount and catchUp are so small that an etcd with any data sends a snapshot, not its log. The defaults of
	// etcd-druid do that from 15,000 requests on.
	snapshotCount, catchUp = 100, 10
	tailBytes              = 4 << 10
)

// ports are where everything listens.
type ports struct {
	// leader and learner are the peer ports of the etcds.
	leader, learner int
	// toLeader is where the relay of the learner's side takes what is for the leader, toLearner the other one.
	toLeader, toLearner int
	// farLeader and farLearner are where the relays take what comes from each other.
	farLeader, farLearner int
}

func newPorts() ports {
	return ports{program.FreePort(), program.FreePort(), program.FreePort(), program.FreePort(), program.FreePort(),
		program.FreePort()}
}

// relays returns the configurations of both relays, that of the leader's side first.
func (p ports) relays() []string {
	side := func(near, remote, far, target int, remoteName, ownName string) string {
		return fmt.Sprintf("near: [{port: %d, routes: [{innerSNI: [%s], remote: {host: 127.0.0.1, port: %d, "+
			"serverName: %q}}]}]\nfar: {port: %d, routes: [{serverName: %q, innerSNI: [%s], target: '127.0.0.1:%d'}]}",
			near, host, remote, remoteName, far, ownName, host, target)
	}
	ofLeader, ofLearner := relaybench.OuterName(0), relaybench.OuterName(1)
	return []string{
		side(p.toLearner, p.farLearner, p.farLeader, p.leader, ofLearner, ofLeader),
		side(p.toLeader, p.farLeader, p.farLearner, p.learner, ofLeader, ofLearner),
	}
}

func peerURL(port int) string { return "https://" + net.JoinHostPort(host, strconv.Itoa(port)) }

// side says how an etcd listens and what it is told of the cluster.
type side struct {
	listen, advertise int
	cluster, state    string
}

func (p ports) leaderSide() side {
	return side{p.leader, p.toLeader, leaderName + "=" + peerURL(p.toLeader), "new"}
}

// learnerSide is that of a learner that the leader reaches at the port.
func (p ports) learnerSide(port int) side {
	return side{p.learner, port, leaderName + "=" + peerURL(p.toLeader) + "," + learnerName + "=" + peerURL(port),
		"existing"}
}

// writeTLS writes the credentials of the etcds.
func writeTLS(folder string) error {
	ca, err := (&secretsutils.CertificateSecretConfig{Name: "ca-etcd-peer", CommonName: "ca-etcd-peer",
		CertType: secretsutils.CACert}).GenerateCertificate()
	if err != nil {
		return fmt.Errorf("failed to generate the authority of the etcds: %w", err)
	}
	certificate, err := (&secretsutils.CertificateSecretConfig{
		Name: "etcd", CommonName: "etcd", CertType: secretsutils.ServerClientCert, SigningCA: ca,
		DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}).GenerateCertificate()
	if err != nil {
		return fmt.Errorf("failed to generate the certificate of the etcds: %w", err)
	}
	for name, content := range map[string][]byte{"ca.crt": ca.CertificatePEM, "tls.crt": certificate.CertificatePEM,
		"tls.key": certificate.PrivateKeyPEM} {
		if err := os.WriteFile(filepath.Join(folder, etcdTLS+name), content, 0o600); err != nil {
			return fmt.Errorf("failed to write the credentials of the etcds: %w", err)
		}
	}
	return nil
}

// member is an etcd.
type member struct {
	name, folder, log, clientURL string
	command                      *exec.Cmd
}

// etcd starts an etcd without data.
func (b *bench) etcd(name string, s side) (*member, error) {
	m := &member{name: name, folder: filepath.Join(b.Folder, name), log: filepath.Join(b.Folder, name+".log"),
		clientURL: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(program.FreePort()))}
	output, err := os.Create(m.log)
	if err != nil {
		return nil, fmt.Errorf("failed to make the log of the %s: %w", name, err)
	}
	defer output.Close()
	credentials := filepath.Join(b.Folder, etcdTLS)
	m.command = exec.Command(b.Etcd, //nolint:gosec // It is the etcd of this repository's tools.
		"--name="+name, "--data-dir="+m.folder, "--logger=zap", "--strict-reconfig-check=false",
		"--listen-client-urls="+m.clientURL, "--advertise-client-urls="+m.clientURL,
		fmt.Sprintf("--listen-peer-urls=https://127.0.0.1:%d", s.listen),
		"--initial-advertise-peer-urls="+peerURL(s.advertise),
		"--initial-cluster="+s.cluster, "--initial-cluster-state="+s.state,
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+credentials+"ca.crt",
		"--peer-cert-file="+credentials+"tls.crt", "--peer-key-file="+credentials+"tls.key",
		fmt.Sprintf("--quota-backend-bytes=%d", quota), fmt.Sprintf("--snapshot-count=%d", snapshotCount),
		fmt.Sprintf("--experimental-snapshot-catchup-entries=%d", catchUp))
	m.command.Stdout, m.command.Stderr = output, output
	if err := m.command.Start(); err != nil {
		return nil, fmt.Errorf("failed to start the %s: %w", name, err)
	}
	return m, nil
}

func (m *member) client() (*clientv3.Client, error) {
	// Each attempt to promote the learner would be logged.
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.clientURL}, DialTimeout: startTimeout,
		Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("failed to make a client of the %s: %w", m.name, err)
	}
	return client, nil
}

// awaitReady waits until the etcd serves.
func (m *member) awaitReady(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		_, err := m.get(ctx, "/health")
		if err == nil {
			return nil
		}
		if program.Sleep(ctx, pollInterval) != nil {
			return fmt.Errorf("the %s is not ready in time: %w\n%s", m.name, err, m.tail())
		}
	}
}

// get returns the lines that the etcd answers with.
func (m *member) get(ctx context.Context, path string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.clientURL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("failed to ask the %s: %w", m.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the %s answers %s with %s", m.name, path, response.Status)
	}
	var lines []string
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}

// metric returns a metric without labels.
func (m *member) metric(ctx context.Context, name string) (float64, error) {
	lines, err := m.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the %s has no metric %s", m.name, name)
}

// used returns the processor seconds of the etcd.
func (m *member) used() (float64, error) {
	sample, err := machine.Read(machine.Proc, m.command.Process.Pid)
	return sample.CPU.Seconds(), err
}

// tail returns what the etcd has logged last.
func (m *member) tail() string {
	content, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-tailBytes):])
}

// stop ends the etcd.
func (m *member) stop() {
	_ = m.command.Process.Signal(syscall.SIGKILL)
	_ = m.command.Wait()
}

// remove ends the etcd and removes its data.
func (m *member) remove() error {
	m.stop()
	return errors.Join(os.RemoveAll(m.folder), os.Remove(m.log))
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/livecpm/livecpm/test/program"
)

// restartPause is how long the kubelet takes to start a container again.
const restartPause = 3 * time.Second

// member is a real etcd with its volume, its container and the kubelet, which starts the container again.
type member struct {
	name, binary, folder string
	client, peer         string // host:port
	link                 *link
	tls                  *certificates

	lock    sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process of cmd has ended
	wanted  bool
	args    []string
	watched sync.WaitGroup
}

// newMember returns a member that has not started, in a folder of its own below the one given.
func newMember(name, binary, folder string, tls *certificates) (*member, error) {
	local := func() string { return fmt.Sprintf("127.0.0.1:%d", program.FreePort()) }
	m := &member{name: name, binary: binary, folder: filepath.Join(folder, name), tls: tls,
		client: local(), peer: local()}
	var err error
	m.link, err = newLink(m.peer)
	return m, err
}

// peerURL is where the other members reach it.
func (m *member) peerURL() string { return "http://" + m.link.address() }

// initial is its part of an initial cluster.
func (m *member) initial() string { return m.name + "=" + m.peerURL() }

// output is its log.
func (m *member) output() string { return filepath.Join(m.folder, "log") }

func (m *member) data() string { return filepath.Join(m.folder, "data") }

// start starts the container, which the kubelet keeps running from now on. The arguments are those by which the etcds
// differ.
func (m *member) start(args ...string) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.args, m.wanted = args, true
	return m.launch()
}

func (m *member) launch() error {
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return fmt.Errorf("failed to make the volume of %s: %w", m.name, err)
	}
	cmd := exec.Command(m.binary, append([]string{ // #nosec G204 -- The test's own etcd.
		"--name=" + m.name, "--data-dir=" + m.data(), "--log-level=warn", "--initial-cluster-token=passon",
		"--listen-peer-urls=http://" + m.peer, "--initial-advertise-peer-urls=" + m.peerURL(),
		"--listen-client-urls=https://" + m.client, "--advertise-client-urls=https://" + m.client,
		"--client-cert-auth", "--trusted-ca-file=" + m.tls.ca, "--cert-file=" + m.tls.cert, "--key-file=" + m.tls.key,
	}, m.args...)...)
	output, err := os.OpenFile(m.output(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("failed to open the log of %s: %w", m.name, err)
	}
	defer func() { _ = output.Close() }()
	cmd.Stdout, cmd.Stderr = output, output
	// Should the test be killed, the kernel ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("failed to start %s: %w", m.name, err)
	}
	ended := make(chan struct{})
	m.cmd, m.ended = cmd, ended
	m.watched.Go(func() {
		_ = cmd.Wait()
		close(ended)
		time.Sleep(restartPause)
		m.lock.Lock()
		defer m.lock.Unlock()
		if m.wanted && m.cmd == cmd {
			_ = m.launch()
		}
	})
	return nil
}

// kill ends the process at once. The kubelet starts it again.
func (m *member) kill() error {
	m.lock.Lock()
	cmd, ended := m.cmd, m.ended
	m.lock.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("failed to kill %s: %w", m.name, err)
	}
	<-ended
	return nil
}

// signal sends a signal to the process, if it runs.
func (m *member) signal(signal syscall.Signal) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if err := m.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("failed to send %s to %s: %w", signal, m.name, err)
	}
	return nil
}

// stop takes the pod away: nothing starts the process again.
func (m *member) stop() error {
	m.lock.Lock()
	m.wanted = false
	m.lock.Unlock()
	return m.kill()
}

// loseVolume takes the pod and what it has stored away.
func (m *member) loseVolume() error {
	if err := m.stop(); err != nil {
		return err
	}
	if err := os.RemoveAll(m.data()); err != nil {
		return fmt.Errorf("failed to remove the volume of %s: %w", m.name, err)
	}
	return nil
}

// close ends all that belongs to it.
func (m *member) close() {
	_ = m.stop()
	m.link.close()
	m.watched.Wait()
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// sourceOffset is where an IPv4 header has the address of the sender; networkHeader is where the kernel lets a filter
// of a socket find that header.
const (
	sourceOffset  = 12
	networkHeader = 0xfff00000 // SKF_NET_OFF, which the library has not
)

// drop lets the kernel discard every packet that arrives for the socket, before TCP sees it. Nothing is acknowledged.
func drop(socket syscall.Conn) error {
	return attach(socket, []bpf.Instruction{bpf.RetConstant{Val: 0}})
}

// lose lets the kernel discard that percentage of the packets that arrive for the socket, at random.
func lose(socket syscall.Conn, percent int) error {
	if percent >= everything {
		return drop(socket)
	}
	return attach(socket, []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtRand},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: math.MaxUint32 / everything * uint32(percent), SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: math.MaxInt32},
	})
}

// dropFrom is drop for the packets of some senders, IPv4 ones.
func dropFrom(socket syscall.Conn, senders []netip.Addr) error {
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: networkHeader + sourceOffset, Size: 4}}
	for _, sender := range senders {
		address := sender.As4()
		value := uint32(address[0])<<24 | uint32(address[1])<<16 | uint32(address[2])<<8 | uint32(address[3])
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: 1},
			bpf.RetConstant{Val: 0})
	}
	return attach(socket, append(program, bpf.RetConstant{Val: math.MaxInt32}))
}

// pass ends drop, lose and dropFrom.
func pass(socket syscall.Conn) error {
	return control(socket, func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		if errors.Is(err, unix.ENOENT) { // there is none
			return nil
		}
		return err
	})
}

func attach(socket syscall.Conn, program []bpf.Instruction) error {
	assembled, err := bpf.Assemble(program)
	if err != nil {
		return fmt.Errorf("failed to assemble filter of socket: %w", err)
	}
	filter := make([]unix.SockFilter, 0, len(assembled))
	for _, i := range assembled {
		filter = append(filter, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	return control(socket, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
}

func control(socket syscall.Conn, do func(fd int) error) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("failed to access socket: %w", err)
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return fmt.Errorf("failed to access socket: %w", err)
	}
	if done != nil {
		return fmt.Errorf("failed to change filter of socket: %w", done)
	}
	return nil
}

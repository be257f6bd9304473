// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package planted breaks each rule about the shape of functions once. make check fails if its linters do not find that.
package planted

import "fmt"

// Arguments has five parameters.
func Arguments(a, b, c, d, e int) int { return a + b + c + d + e }

// Flag does one of two things.
func Flag(loud bool) string {
	if loud {
		return "HELLO"
	}
	return "hello"
}

// Length has 61 lines.
func Length() {
	fmt.Println(0)
	fmt.Println(1)
	fmt.Println(2)
	fmt.Println(3)
	fmt.Println(4)
	fmt.Println(5)
	fmt.Println(6)
	fmt.Println(7)
	fmt.Println(8)
	fmt.Println(9)
	fmt.Println(10)
	fmt.Println(11)
	fmt.Println(12)
	fmt.Println(13)
	fmt.Println(14)
	fmt.Println(15)
	fmt.Println(16)
	fmt.Println(17)
	fmt.Println(18)
	fmt.Println(19)
	fmt.Println(20)
	fmt.Println(21)
	fmt.Println(22)
	fmt.Println(23)
	fmt.Println(24)
	fmt.Println(25)
	fmt.Println(26)
	fmt.Println(27)
	fmt.Println(28)
	fmt.Println(29)
	fmt.Println(30)
	fmt.Println(31)
	fmt.Println(32)
	fmt.Println(33)
	fmt.Println(34)
	fmt.Println(35)
	fmt.Println(36)
	fmt.Println(37)
	fmt.Println(38)
	fmt.Println(39)
	fmt.Println(40)
	fmt.Println(41)
	fmt.Println(42)
	fmt.Println(43)
	fmt.Println(44)
	fmt.Println(45)
	fmt.Println(46)
	fmt.Println(47)
	fmt.Println(48)
	fmt.Println(49)
	fmt.Println(50)
	fmt.Println(51)
	fmt.Println(52)
	fmt.Println(53)
	fmt.Println(54)
	fmt.Println(55)
	fmt.Println(56)
	fmt.Println(57)
	fmt.Println(58)
	fmt.Println(59)
	fmt.Println(60)
}

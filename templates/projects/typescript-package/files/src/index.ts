/** Returns the sum of two numbers. */
export function add(first: number, second: number): number {
  return first + second;
}
